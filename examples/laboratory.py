"""Laboratory: which measures of a voice belong together, given all the others.

Uses 5,875 recordings of 42 people with Parkinson's disease (public; Tsanas et al. 2009) from the
folder that the environment variable DPCOV_DATA names, or ../shared/data, and stops where they are
not there: ``python examples/laboratory.py laboratory``.

A recording is protected here, not a person: with 42 people nothing could be said that protects
each of them. Who publishes about people needs many of them, and ``[unit]`` in the schema.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import dpcov

DATA = Path(os.environ.get("DPCOV_DATA", Path(__file__).parents[2] / "shared" / "data"))
TABLE = DATA / "parkinsons_telemonitoring" / "parkinsons_updrs.data"
BOUNDS = {  # from what the measures mean; generous, which the mechanism `standardized` forgives
    "age": (0, 120),
    "motor_UPDRS": (0, 108),
    "total_UPDRS": (0, 176),
    "Jitter(%)": (0, 0.1),
    "Shimmer": (0, 0.5),
    "NHR": (0, 1),
    "HNR": (0, 50),
    "RPDE": (0, 1),
    "DFA": (0, 1),
    "PPE": (0, 1),
}


def main(folder: Path) -> None:
    """A release about features in units of their spread, a sparse graph, and its picture."""
    if not TABLE.is_file():
        print("The recordings are not here; see the first lines of this script.")
        return
    folder.mkdir(parents=True, exist_ok=True)
    schema = dpcov.Schema.parse(
        {
            "columns": {
                name: {"kind": "numeric", "lower": low, "upper": high}
                for name, (low, high) in BOUNDS.items()
            }
        }
    )
    table = folder / "recordings.csv"
    table.write_bytes(TABLE.read_bytes())
    release = dpcov.release(table, schema=schema, epsilon=2.0, mechanism="standardized")
    release.save(folder / "voices.release.json", force=True)
    print(release.guarantee_in_words())

    graph = dpcov.precision(release, draws=20)
    print(f"{len(graph.edges)} pairs are related given all other measures; the strongest:")
    for edge in graph.edges[:8]:
        pair = f"{edge.first} - {edge.second}"
        print(
            f"  {edge.partial_correlation:6.2f}  {pair:28} in {edge.stability:.0%} of simulations"
        )
    dpcov.plot.graph(graph).figure.savefig(folder / "voices.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "laboratory"))
