"""Report of a ledger on one page, for a data protection officer.

The page contains only public facts: budgets, guarantees, sources and hashes of files.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import TYPE_CHECKING

from dpcov.api.ledger import Ledger
from dpcov.api.ledger.account import TIME_HEAD, UNFINISHED, in_words
from dpcov.core.printable import printable
from dpcov.core.privacy import ApproxDP, Guarantee
from dpcov.core.show import html
from dpcov.core.show.table import Table, sentences
from dpcov.core.show.text import summary
from dpcov.errors import LedgerError, OutputError

if TYPE_CHECKING:
    from dpcov.api.ledger import Account
    from dpcov.core.show.table import Row

PAGE_TITLE = "Privacy ledger"
# Sentence on the epsilon of the releases, with a place for the delta.
DRAWN = "epsilon at {:g} is the epsilon of the drawn noise at the delta of the budget."
SUFFIXES = (".html", ".md", ".txt")


def pages(ledger: Ledger, dataset: str | None = None) -> list[Table]:
    """Return the report of a ledger as tables with titles and sentences.

    Parameters
    ----------
    ledger : Ledger
        Ledger to report.

    dataset : str, optional
        Data set to report. Default: all data sets.

    Returns
    -------
    list of Table
        Tables in the order of the page.

    """
    chosen = ledger.datasets() if dataset is None else [dataset]
    found = [sentences(f"{PAGE_TITLE} {ledger.path.name}, {_today()}", *_chain(ledger))]
    for name in chosen:
        account = ledger.account(name)
        found += [_promise(account), account.totals()]
        if account.entries:
            found += [_releases(account), _sources(account), _files(account)]
    return found


def rendered(tables: Sequence[Table], suffix: str) -> str:
    """Return a report as the text of a file.

    Parameters
    ----------
    tables : sequence of Table
        Tables of the report.

    suffix : str
        Suffix of the file: ``.html``, ``.md`` or ``.txt``.

    Returns
    -------
    str
        Content of the file.

    Raises
    ------
    OutputError
        The suffix has no format.

    """
    match suffix.lower():
        case ".html":
            return _html(tables)
        case ".md":
            return "\n".join(map(_markdown, tables))
        case ".txt":
            return summary(tables) + "\n"
    raise OutputError(f"A report of a ledger ends in {', '.join(SUFFIXES)}. Change the name.")


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _chain(ledger: Ledger) -> list[str]:
    """Return sentences on the hash chain of a ledger."""
    try:
        chain = ledger.verify()
    except LedgerError:
        return ["dpcov cannot verify the file. `dpcov ledger verify` states the reason."]
    found = [f"The file is valid: {len(chain.digests)} records, head {chain.head}."]
    if chain.unverified:
        found.append(f"dpcov cannot verify the first {chain.unverified} records.")
    return found


def _promise(account: Account) -> Table:
    """Return sentences on the guarantee of all releases of a data set."""
    unit = account.unit
    stated = Guarantee(account.budget, account.neighbors, *([unit] if unit else []))
    unfinished = sum(entry.state == UNFINISHED for entry in account.entries)
    notes = [
        f"Data set {account.dataset}. All releases together: {stated.in_words()}",
        f"Releases: {len(account.entries)}.",
    ]
    if unfinished:
        notes.append(
            f"Unfinished releases: {unfinished}. Their budget is spent, but dpcov recorded no "
            "file. The program may have stopped, or the file could not be written."
        )
    return sentences(*notes)


def _releases(account: Account) -> Table:
    """Return the table of the releases with their costs."""
    delta = account.budget.delta if isinstance(account.budget, ApproxDP) else None
    heads = ["release", TIME_HEAD, "mechanism", "guarantee"]
    heads += [] if delta is None else [f"epsilon at {delta:g}"]
    rows: list[Row] = []
    for entry in account.entries:
        cells = [entry.short_time, entry.note, in_words(entry.guarantee.budget)]
        if delta is not None:
            epsilon = account.epsilon_at_delta(entry)
            cells.append("unknown" if epsilon is None else f"{epsilon:.4g}")
        rows.append((str(entry.id), cells))
    notes = [] if delta is None else [DRAWN.format(delta)]
    return Table(tuple(heads), rows, words=True, notes=tuple(notes))


def _sources(account: Account) -> Table:
    """Return the table of the sources, purposes and files of the releases."""
    rows: list[Row] = []
    for entry in account.entries:
        if entry.outcome is not None:
            about = entry.outcome.about
            cells = [about.source, about.schema, about.stated_year, about.purpose or ""]
            rows.append((str(entry.id), [*cells, ", ".join(about.names)]))
    heads = ("release", "source", "schema", "year of the data", "purpose", "file")
    return Table(heads, rows, words=True)


def _files(account: Account) -> Table:
    """Return the table of the hashes of the release files."""
    rows: list[Row] = []
    for entry in account.entries:
        hashes = entry.outcome.files if entry.outcome is not None else ()
        rows += [(str(entry.id), [one]) for one in hashes or (entry.file,)]
    return Table(("release", "SHA-256 of the file"), rows, words=True)


def _html(tables: Sequence[Table]) -> str:
    style = files("dpcov.report").joinpath("page.css").read_text(encoding="utf-8")
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{PAGE_TITLE}</title>'
        f"<style>{style}</style></head><body><main><h1>{PAGE_TITLE}</h1>"
        f"{html.tables(tables)}</main></body></html>\n"
    )


def _markdown(table: Table) -> str:
    """Return a table as Markdown, with its title and its notes."""
    parts = [f"## {_escaped(table.title)}\n"] if table.title and table.rows else []
    if table.rows:
        lines = [list(table.heads), ["---"] * len(table.heads), *table.texts()]
        parts += [f"| {' | '.join(map(_escaped, cells))} |" for cells in lines] + [""]
    parts += [f"{_escaped(note)}\n" for note in table.notes]
    return "\n".join(parts)


def _escaped(text: str) -> str:
    """Return a text without characters that have a meaning in Markdown or in HTML."""
    plain = html.text(printable(text))
    return "".join(f"\\{c}" if c in "|*_`[]" else c for c in plain)
