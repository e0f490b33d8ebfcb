"""The quiet boundary: nothing that happens while data is read reaches a message."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from dpcov.errors import DpcovError, SourceError


@contextmanager
def quiet(message: str) -> Iterator[None]:
    """Replace any error by `SourceError(message)` and drop every warning.

    Libraries print the cell that they stumble over; so their text, their cause and their
    traceback go no further. dpcov's own errors pass: they are made of public things.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except DpcovError as error:
            raise error from None
        except Exception:
            raise SourceError(message) from None
