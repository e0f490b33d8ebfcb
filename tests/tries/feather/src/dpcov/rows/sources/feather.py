"""Source of Feather files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from dpcov.core.printable import shown
from dpcov.errors import SourceError
from dpcov.rows.sources.arrow import ArrowSource

FEATHER_ENDING = ".feather"


class FeatherSource(ArrowSource):
    """Source of a Feather file of version 2, which stores Arrow batches.

    Parameters
    ----------
    path : Path
        Feather file.

    """

    kind = "feather"

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with pa.ipc.open_file(path) as file:  # reads names and types only
                fields = file.schema
        except (pa.ArrowException, OSError):
            raise SourceError(
                f"{shown(path)!r} is not a complete Feather file of version 2. Check the file. "
                "Nothing was spent."
            ) from None
        self._set_fields(fields)

    def _reader(self, columns: Sequence[str]) -> pa.RecordBatchReader:
        """Open a stream of the batches."""
        file = pa.ipc.open_file(self._path)
        batches = (file.get_batch(at) for at in range(file.num_record_batches))
        return pa.RecordBatchReader.from_batches(file.schema, batches)
