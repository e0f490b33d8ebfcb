"""The quiet boundary: nothing that happens while data is read reaches a message."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from dpcov.errors import DpcovError, SourceError

P = ParamSpec("P")
T = TypeVar("T")


def leave_no_core() -> None:
    """Let no crash of this process write its memory, which holds rows, into a file."""
    try:
        import resource
    except ImportError:  # where there are no such files
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def quiet(message: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function that reads data: no warning, and no error but dpcov's own, gets out.

    Libraries print the cell that they stumble over; so their text, their cause and their
    traceback (whose frames hold data) go no further: `SourceError(message)` is raised afresh.
    dpcov's own errors pass: they are made of public things. Panics of compiled libraries are no
    `Exception`, but are caught as well.
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
