"""Protection against messages that contain data: no library error leaves the reading of data."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from dpcov.errors import DpcovError, SourceError

P = ParamSpec("P")
T = TypeVar("T")


def leave_no_core() -> None:
    """Disable core dumps, because the memory of this process contains rows."""
    try:
        import resource
    except ImportError:  # this system has no core dumps
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def quiet(message: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function that reads data, so that only errors of dpcov leave it.

    Libraries quote cells in their messages, and tracebacks contain data. The decorator therefore
    suppresses warnings and replaces other errors by a new `SourceError(message)` without cause.
    Errors of dpcov pass, because their messages contain only public information. Panics of compiled
    libraries are not an `Exception`, so the decorator catches `BaseException`.

    Parameters
    ----------
    message : str
        Message of the new error.

    Returns
    -------
    callable
        Decorator.

    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
            failure: BaseException
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    return function(*args, **kwargs)
            except (DpcovError, KeyboardInterrupt, SystemExit) as error:
                failure = error.with_traceback(None)
                failure.__cause__ = failure.__context__ = None
            except BaseException:
                failure = SourceError(message)
            raise failure

        return guarded

    return decorate
