"""Progress on a terminal.

While dpcov reads private rows, a spinner shows no progress, because progress depends on the rows.
Plans read no rows, so a bar shows their steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reading() -> Iterator[None]:
    """Show a spinner while dpcov reads private rows. It takes no argument."""
    with _spinner("reading"):
        yield


@contextmanager
def computing() -> Iterator[None]:
    """Show a spinner during an analysis."""
    with _spinner("computing"):
        yield


@contextmanager
def _spinner(words: str) -> Iterator[None]:
    """Show a spinner and the elapsed time on stderr, if stderr is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn(words), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task("", total=None)
        yield


@contextmanager
def bar(words: str) -> Iterator[None]:
    """Show a progress bar on stderr for the steps of a plan, if stderr is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from dpcov.core.steps import steps_shown_by

    columns = (TextColumn(words), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None)

        def show(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        with steps_shown_by(show):
            yield
