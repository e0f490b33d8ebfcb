"""What a measurement of trust gives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One measured figure: the attack, what was counted, what it must be, what it is."""

    attack: str
    measured: str
    wanted: str
    found: str
    ok: bool
