"""Errors of dpcov. Every message states the problem and the remedy.

An attacker can read the text of an error. The text therefore contains only public facts, such as
column names, bounds, budgets and file names, and never a cell of the data.
"""

from __future__ import annotations


class DpcovError(Exception):
    """Base class of all errors of dpcov. On the command line, the exit code is 2.

    Examples
    --------
    >>> import dpcov
    >>> try:
    ...     dpcov.load("no-such-file.json")
    ... except dpcov.errors.DpcovError as error:
    ...     print(type(error).__name__)
    ReleaseError

    """


class BudgetError(DpcovError):
    """Error for an invalid privacy parameter.

    Examples
    --------
    >>> import dpcov
    >>> dpcov.PureDP(-1.0)
    Traceback (most recent call last):
        ...
    dpcov.errors.BudgetError: epsilon must be a finite number above 0, not -1.0.

    """


class SchemaError(DpcovError):
    """Error for a schema that is missing, malformed, or different from the columns of the data.

    Examples
    --------
    >>> import dpcov
    >>> dpcov.Schema.from_bounds(0, 1, ["age", "age"])
    Traceback (most recent call last):
        ...
    dpcov.errors.SchemaError: Two columns have the same name. Rename one of them.

    """


class SourceError(DpcovError):
    """Error for data that dpcov cannot open or read. The message contains no data.

    Examples
    --------
    >>> import dpcov
    >>> try:
    ...     dpcov.release("no-such-file.csv", lower=0, upper=1, epsilon=1.0)
    ... except dpcov.errors.SourceError:
    ...     print("dpcov spent no budget.")
    dpcov spent no budget.

    """


class MechanismError(DpcovError):
    """Error for a request that a mechanism cannot fulfil.

    dpcov raises this error before it reads data or spends budget.

    Examples
    --------
    >>> import dpcov
    >>> try:
    ...     dpcov.release([[0.5]], lower=[0], upper=[1], epsilon=1.0, mechanism="gaussian")
    ... except dpcov.errors.MechanismError:
    ...     print("Gaussian noise needs a delta or rho.")
    Gaussian noise needs a delta or rho.

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

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> few = np.random.default_rng(0).standard_normal((200, 2))
    >>> budget = {"epsilon": 1.0, "delta": 1e-6}
    >>> try:
    ...     dpcov.release(few, lower=-5, upper=5, **budget, mechanism="stable-covariance")
    ... except dpcov.errors.MechanismRefused:
    ...     print("The budget is spent.")
    The budget is spent.

    """

    def __init__(self, wanted: str, least: int = 0) -> None:
        self.wanted = wanted
        number = f", and at least {least:,} rows (persons) with this budget" if least else ""
        super().__init__(
            f"The mechanism refuses to release: it needs {wanted}{number}, but its private test "
            "did not confirm this property of the data. The budget is spent."
        )


class EstimatorError(DpcovError, ValueError):
    """Error for invalid input to an estimator; also a ValueError, as scikit-learn requires.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcov.errors import EstimatorError
    >>> from dpcov.estimators import PrivateCovariance
    >>> try:
    ...     PrivateCovariance(epsilon=1.0).fit(np.eye(50))
    ... except EstimatorError:
    ...     print("The estimator needs public bounds.")
    The estimator needs public bounds.

    """


class ReleaseError(DpcovError):
    """Error for an invalid release file, or an analysis that a release does not support.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> release = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0)
    >>> try:
    ...     dpcov.ols(release, "income")
    ... except dpcov.errors.ReleaseError:
    ...     print("The release has no column of this name.")
    The release has no column of this name.

    """


class NotReleasedError(ReleaseError):
    """Error for a result that the release does not contain. The message states the reason.

    See Also
    --------
    Release.not_released : Reason why a release contains no means and covariances.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> release = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0, intercept=0)
    >>> try:
    ...     release.mean()
    ... except dpcov.errors.NotReleasedError:
    ...     print("A release without an intercept contains no means.")
    A release without an intercept contains no means.

    """


class SignatureError(DpcovError):
    """Error for a file without a valid signature. On the command line, the exit code is 1.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import dpcov
    >>> import numpy as np
    >>> release = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0)
    >>> with TemporaryDirectory() as folder:
    ...     release.save(f"{folder}/release.json")
    ...     _ = dpcov.signatures.create_key(f"{folder}/lab.key")
    ...     try:
    ...         dpcov.signatures.verify(f"{folder}/release.json", f"{folder}/lab.key.pub")
    ...     except dpcov.errors.SignatureError:
    ...         print("Ask the publisher for the signed file.")
    Ask the publisher for the signed file.

    """


class KeyFileError(DpcovError):
    """Error for a key file that dpcov cannot use, or for a wrong passphrase.

    Examples
    --------
    >>> import dpcov
    >>> try:
    ...     dpcov.signatures.sign("release.json", "no-such-file.key")
    ... except dpcov.errors.KeyFileError:
    ...     print("Create the key first.")
    Create the key first.

    """


class OutputError(DpcovError):
    """Error for output that dpcov cannot write.

    If possible, dpcov raises this error before it spends budget.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> release = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0)
    >>> try:
    ...     release.save("no-such-folder/release.json")
    ... except dpcov.errors.OutputError:
    ...     print("Choose a folder that exists.")
    Choose a folder that exists.

    """


class LedgerError(DpcovError):
    """Error for a ledger that dpcov cannot use.

    Examples
    --------
    >>> import dpcov
    >>> try:
    ...     dpcov.Ledger.open("no-such-file.ledger")
    ... except dpcov.errors.LedgerError:
    ...     print("Create the ledger first.")
    Create the ledger first.

    """


class BudgetExceededError(LedgerError):
    """Error for a release that needs more budget than the ledger has left. Nothing was spent.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import dpcov
    >>> import numpy as np
    >>> with TemporaryDirectory() as folder:
    ...     ledger = dpcov.Ledger.create(f"{folder}/people.ledger", dpcov.PureDP(1.0))
    ...     try:
    ...         dpcov.release(np.eye(50), lower=0, upper=1, epsilon=5.0, ledger=ledger)
    ...     except dpcov.errors.BudgetExceededError:
    ...         print(ledger.account().left)
    {'epsilon': 1.0}

    """
