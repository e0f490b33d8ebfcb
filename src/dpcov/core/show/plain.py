"""Conversion of results to JSON, with null for numbers that are not finite."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """Return a value as JSON data. A number that is not finite becomes null."""
    if hasattr(value, "tolist"):  # a NumPy array or number; this module does not import NumPy
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return {k: plain(part) for k, part in value.items()} if isinstance(value, Mapping) else value


def json_text(value: Any) -> str:
    """Return a value as JSON text, without NaN and Infinity."""
    return json.dumps(plain(value), allow_nan=False)
