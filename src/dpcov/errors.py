"""Every error a user can meet, each saying what to do about it.

The text of an error is an output that an adversary may read: it is built from public
things only (names, bounds, budgets, file names), never from a cell of the data.
"""

from __future__ import annotations


class DpcovError(Exception):
    """Base of all errors that dpcov raises on purpose; the command line exits with 2."""


class BudgetError(DpcovError):
    """A privacy parameter is not a usable number."""


class SchemaError(DpcovError):
    """The schema is missing, malformed, or does not fit the data's columns."""


class SourceError(DpcovError):
    """The data cannot be opened or read; never says what was in it."""


class MechanismError(DpcovError):
    """A mechanism refuses from public numbers alone, before anything is read or spent."""


class MechanismRefused(DpcovError):  # noqa: N818  an outcome of the mechanism, not a fault
    """A mechanism looked at the data and refuses to release anything.

    That it refused is an output that its guarantee covers, and all that may be learnt: the text is
    the same for every table. The budget is spent. A mechanism that refuses draws nothing more.
    """

    def __init__(self, wanted: str, least: int = 0) -> None:
        self.wanted = wanted
        number = f"It takes at least {least:,} rows (persons) with this budget. " if least else ""
        super().__init__(
            f"The mechanism refuses to release: it needs {wanted}, and by its private test the "
            f"data may not be like that. {number}The budget is spent."
        )


class EstimatorError(DpcovError, ValueError):
    """An estimator got what it can't use; a ValueError too, as scikit-learn's interface asks."""


class ReleaseError(DpcovError):
    """A release file cannot be read, or is not what it should be."""


class NotReleasedError(ReleaseError):
    """A figure that the release does not hold; the text says why it was not released."""


class OutputError(DpcovError):
    """The output cannot be written; found before anything is spent, where it can be."""


class LedgerError(DpcovError):
    """The ledger cannot be used."""


class BudgetExceededError(LedgerError):
    """The ledger refuses: what is left does not suffice. Nothing was drawn or spent."""
