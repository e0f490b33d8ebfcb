"""The stub that type checkers read in place of `dpcov/__init__.py`: written from its list of names.

``python tests/public_stub.py`` writes it.
"""

from pathlib import Path

import dpcov

STUB = Path(dpcov.__file__).with_suffix(".pyi")


def text() -> str:
    """Return the text that the stub must have."""
    lines = ["# Written from the list in __init__.py, by tests/public_stub.py.", ""]
    for module, names in dpcov._PUBLIC.items():
        lines += [f"from {module} import {name} as {name}" for name in names]
    lines += [f"from dpcov import {name} as {name}" for name in dpcov._MODULES]
    lines += [f"{old} = {new}" for old, new in dpcov._FORMER.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    STUB.write_text(text(), encoding="utf-8")
