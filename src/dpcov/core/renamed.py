"""Warnings about former names. A former name works for two versions after the rename."""

from __future__ import annotations

import warnings

# Version that removes the former names. Source: two versions after 0.3, which renamed them.
REMOVAL_VERSION = "0.5"


def warn_of_former_name(old: str, new: str, *, depth: int = 1) -> None:
    """Warn the user's code that it uses a former name.

    Parameters
    ----------
    old : str
        Former name, as the user wrote it.

    new : str
        Name that replaces `old`.

    depth : int, default 1
        Number of calls between the user's code and the call of this function.

    """
    message = f"{old} is now {new}. Version {REMOVAL_VERSION} removes the name {old}."
    warnings.warn(message, FutureWarning, stacklevel=depth + 2)
