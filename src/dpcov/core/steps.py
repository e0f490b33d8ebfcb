"""Steps of a long computation, which the command line shows as a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Shown = Callable[[int, int], None]
_SHOWN: ContextVar[Shown | None] = ContextVar("shown", default=None)


class Steps:
    """Counter of the steps of a computation.

    Parameters
    ----------
    total : int
        Number of all steps.

    """

    def __init__(self, total: int) -> None:
        self._total, self._done = total, 0
        self.advance(0)

    def advance(self, steps: int = 1) -> None:
        """Count finished steps, and show them if somebody asked for it."""
        self._done += steps
        show = _SHOWN.get()
        if show is not None:
            show(self._done, self._total)


@contextmanager
def steps_shown_by(show: Shown) -> Iterator[None]:
    """Call a function with the number of finished steps and of all steps.

    The number of steps of a plan follows from public numbers. A computation on private rows must
    not count steps in this way.
    """
    token = _SHOWN.set(show)
    try:
        yield
    finally:
        _SHOWN.reset(token)
