"""Threads that read rows, and that an interrupt can stop at any instruction.

`concurrent.futures` waits with locks that Python code takes and releases. Ctrl-C raises
KeyboardInterrupt in the main thread. If this happens after such a lock is taken and before the
block begins that releases it, the other threads wait forever, and the main thread waits for them.
The threads of this module therefore share two kinds of object only. One is `SimpleQueue`, each of
whose calls Python either completes or does not begin. The other is an attribute that the main
thread sets.
"""

from __future__ import annotations

from _thread import start_new_thread
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Any, Generic, Self, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Task(Generic[Result]):
    """Call of a function in another thread.

    Parameters
    ----------
    call : callable
        Function without arguments.

    """

    __slots__ = ("_answer", "_call")

    def __init__(self, call: Callable[[], Result]) -> None:
        self._call = call
        self._answer: SimpleQueue[tuple[Result, None] | tuple[None, BaseException]] = SimpleQueue()

    def run(self) -> None:
        """Call the function, and keep its result or its error."""
        try:
            self._answer.put((self._call(), None))
        except BaseException as error:
            self._answer.put((None, error))

    def result(self) -> Result:
        """Wait for the end of the call; return its result or raise its error."""
        result, error = self._answer.get()
        if error is not None:
            raise error
        return result  # type: ignore[return-value]


class Threads:
    """Threads that run tasks in the order in which they are submitted.

    An error in the ``with`` block, or an interrupt, discards the tasks that have not begun. The
    block ends when all threads have ended. A second interrupt ends it at once.

    Parameters
    ----------
    count : int
        Number of threads.

    Attributes
    ----------
    stopped : bool
        True after an error or an interrupt. A long task should then end.

    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._started: list[int] = []
        self._tasks: SimpleQueue[Task[Any] | None] = SimpleQueue()
        self._ended: SimpleQueue[None] = SimpleQueue()
        self.stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.stopped = kind is not None
        for _thread in range(self._count):
            self._tasks.put(None)
        for _thread in self._started:
            self._ended.get()

    def submit(self, call: Callable[[], Result]) -> Task[Result]:
        """Let a thread call a function without arguments.

        Returns
        -------
        Task
            Task that returns the result of the call.

        """
        task = Task(call)
        if len(self._started) < self._count:
            # `threading.Thread` is no alternative: its method `start` waits with such a lock.
            self._started.append(start_new_thread(self._work, ()))
        self._tasks.put(task)
        return task

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Return the results of a function for all items; raise the error of the first item."""
        tasks = [self.submit(lambda item=item: function(item)) for item in items]  # type: ignore[misc]
        return [task.result() for task in tasks]

    def _work(self) -> None:
        """Run tasks until the end of the ``with`` block."""
        try:
            while (task := self._tasks.get()) is not None:
                if not self.stopped:
                    task.run()
                del task  # otherwise it keeps its data until the next task begins
        finally:
            self._ended.put(None)
