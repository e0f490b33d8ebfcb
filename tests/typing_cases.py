"""What mypy must accept, and what it must refuse: a mark that is not needed is an error as well.

Never run: `make types` reads it.
"""

import dpcov
from dpcov.core.privacy import Neighbors


def right() -> None:
    """Call the library in accepted ways; nothing here is marked."""
    made = dpcov.release("t.csv", schema="t.toml", epsilon=1.0, ledger="l", where="age >= 18")
    dpcov.release(made, lower=0, upper=[1.0, 2.0], rho=1, mechanism="gaussian", radius="private")
    dpcov.release("t.csv", schema="t.toml", epsilon=1.0, trace_share=0.1, neighbors="replace-one")
    dpcov.release_by("t.csv", "site", schema="t.toml", epsilon=1.0, goal="correlation")
    dpcov.plan("t.toml", 1000, epsilon=1.0, neighbors=Neighbors.ADD_REMOVE)
    dpcov.ridge_alpha(made, "y")
    dpcov.noise_warnings(made)
    dpcov.precision_alpha(made)
    made.save("r.json", force=True)


def former() -> None:
    """Accepted with a warning: former names, with their types."""
    made = dpcov.load("r.json")
    dpcov.choose_alpha(made, "y")  # type: ignore[deprecated]
    dpcov.drowned(made)  # type: ignore[deprecated]
    dpcov.plan("t.toml", 1000, assumptions=dpcov.Guess(0.3))  # type: ignore[deprecated]


def wrong() -> None:
    """Call the library in refused ways; each line is marked."""
    dpcov.release("t.csv", schema="t.toml", epslon=1.0)  # type: ignore[call-arg]
    dpcov.release("t.csv", schema="t.toml", epsilon="1")  # type: ignore[arg-type]
    dpcov.release("t.csv", schema="t.toml", epsilon=1.0, trace_shar=1)  # type: ignore[call-arg]
    dpcov.release("t.csv", schema="t.toml", epsilon=1.0, trace_share="x")  # type: ignore[arg-type]
    dpcov.release("t.csv", schema="t.toml", epsilon=1.0, goal="truth")  # type: ignore[arg-type]
    dpcov.release("t.csv", schema="t.toml", epsilon=1.0, neighbors="swap")  # type: ignore[arg-type]
    dpcov.release("t.csv", schema="t.toml", epsilon=1.0, seed="1")  # type: ignore[arg-type]
    dpcov.release("t.csv", "t.toml", epsilon=1.0)  # type: ignore[call-arg]
    dpcov.release_by("t.csv", "site", epsilon=1.0)  # type: ignore[call-arg]
    dpcov.plan("t.toml", "many", epsilon=1.0)  # type: ignore[arg-type]
    dpcov.choose_alpha("r.json", "y")  # type: ignore[arg-type, deprecated]
    dpcov.relase("t.csv")  # type: ignore[attr-defined]
