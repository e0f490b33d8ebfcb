"""Names of array types for annotations. Each docstring states the shape and the meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Array = NDArray[np.float64]  # any number of dimensions
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
AnyArray = NDArray[Any]
