"""A bar on a terminal while data is read: by the file's bytes or row groups, never by rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpcov.sources.rows import Rows


@contextmanager
def reading_bar(tables: Iterable[Rows]) -> Iterator[None]:
    """Show how far each reading of the tables is; nothing where stderr is no terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (TextColumn("reading"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=1.0)
        for rows in tables:
            rows.progress = lambda share: bar.update(task, completed=share)
        yield
