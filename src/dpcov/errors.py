"""Errors of dpcov. Every message states the problem and the remedy.

An attacker can read the text of an error. The text therefore contains only public facts, such as
column names, bounds, budgets and file names, and never a cell of the data.
"""

from __future__ import annotations


class DpcovError(Exception):
    """Base class of all errors of dpcov. On the command line, the exit code is 2."""


class BudgetError(DpcovError):
    """Error for an invalid privacy parameter."""


class SchemaError(DpcovError):
    """Error for a schema that is missing, malformed, or different from the columns of the data."""


class SourceError(DpcovError):
    """Error for data that dpcov cannot open or read. The message contains no data."""


class MechanismError(DpcovError):
    """Error for a request that a mechanism cannot fulfil.

    Public numbers already show this. dpcov therefore raises the error before it reads data or
    spends budget.
    """


class MechanismRefused(DpcovError):  # noqa: N818  an outcome of the mechanism, not a fault
    """Error for a mechanism that refuses to answer after a private test of the data.

    The guarantee of the mechanism covers the refusal. The text is the same for every table, so it
    reveals nothing else. The budget is spent.

    Parameters
    ----------
    wanted : str
        Property of the data that the mechanism needs.

    least : int, default 0
        Smallest number of rows or persons with this budget, or 0 if it is unknown.

    """

    def __init__(self, wanted: str, least: int = 0) -> None:
        self.wanted = wanted
        number = f", and at least {least:,} rows (persons) with this budget" if least else ""
        super().__init__(
            f"The mechanism refuses to release: it needs {wanted}{number}, but its private test "
            "did not confirm this property of the data. The budget is spent."
        )


class EstimatorError(DpcovError, ValueError):
    """Error for invalid input to an estimator; also a ValueError, as scikit-learn requires."""


class ReleaseError(DpcovError):
    """Error for an invalid release file, or an analysis that a release does not support."""


class NotReleasedError(ReleaseError):
    """Error for a result that the release does not contain. The message states the reason."""


class SignatureError(DpcovError):
    """Error for a file without a valid signature. On the command line, the exit code is 1."""


class KeyFileError(DpcovError):
    """Error for a key file that dpcov cannot use, or for a wrong passphrase."""


class OutputError(DpcovError):
    """Error for output that dpcov cannot write.

    If possible, dpcov raises this error before it spends budget.
    """


class LedgerError(DpcovError):
    """Error for a ledger that dpcov cannot use."""


class BudgetExceededError(LedgerError):
    """Error for a release that needs more budget than the ledger has left. Nothing was spent."""
