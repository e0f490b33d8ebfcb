"""Results as JSON: plain data, in which what is not a number is null."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """Return a value as JSON has it; a number that is not finite becomes null."""
    if hasattr(value, "tolist"):  # of NumPy, which is not imported for this
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return {k: plain(part) for k, part in value.items()} if isinstance(value, Mapping) else value


def json_text(value: Any) -> str:
    """Return a value as JSON text; never NaN or Infinity, which JSON does not have."""
    return json.dumps(plain(value), allow_nan=False)
