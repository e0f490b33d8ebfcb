"""The table colon at its own size, 62 rows and 2,000 genes: a long run of its own.

`make colon` keeps the errors in `results/wang2018-colon.json`, with the commit. The claim
`colon-own-size` reads the copy in `docs/results/papers`. With `--all`, the script also solves
the problems with the pure noise of the slides, which take longer than all others.

Without noise, all entries off the diagonal are below both rho, so that the solution is diagonal.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import datasets
import seeds
from claims import Finding
from dpcov.denoise.projection import project
from results import Kept
from wang2018 import printed as slides
from wang2018.data import Table, scaled
from wang2018.methods import components, output_perturbed, solve_components, with_noise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

KEPT = "wang2018-colon.json"
SNAPSHOT = Path(__file__).parents[2] / "docs" / "results" / "papers" / KEPT
NAME = "colon, 2,000 genes"
GAP = 1e-4  # duality gap per gene; a relative error of the solution of about 1%
SEED = 2000
RHO = slides.DIAGONAL
# The pure noise comes last, because its problems take longer than all others.
PURE = (slides.WISHART, slides.LAPLACE)
METHODS = (slides.GAUSSIAN, slides.OUTPUT, slides.SULQ, slides.WISHART_APPROXIMATE, *PURE)
SHOWN = (*PURE, slides.WISHART_APPROXIMATE, slides.GAUSSIAN)


def cells(
    method: str, table: Table, optimum: Matrix, *, projected: bool
) -> Iterator[dict[str, Any]]:
    """Yield the relative errors of a method for each epsilon.

    `error` is the error with our projection, or None if `projected` is False. `diagonal` is the
    error of the slides' problem without our projection, or None if its solution is not diagonal.
    The same draws serve all epsilons, so that each problem can start at the solution of another.
    """
    start = None
    for epsilon in reversed(slides.EPSILONS):
        generator = seeds.generator(SEED)
        row: dict[str, Any] = {"method": method, "epsilon": epsilon, "rho": RHO}
        if method == slides.OUTPUT:
            estimate = output_perturbed(table, optimum, epsilon, RHO, generator)
            yield row | {"diagonal": None, "error": relative(estimate, optimum)}
            continue
        noisy = with_noise(method, table, epsilon, generator)
        plain = error = None
        penalised = np.diag(noisy) + RHO
        if len(components(noisy, RHO)) == table.d and penalised.min() > 0:
            plain = relative(np.diag(1 / penalised), optimum)
        if projected:
            estimate, start = solve_components(project(noisy, None), RHO, start=start, tol=GAP)
            error = relative(estimate, optimum)
        yield row | {"diagonal": plain, "error": error}


def relative(estimate: Matrix, optimum: Matrix) -> float:
    return float(np.linalg.norm(estimate - optimum) / np.linalg.norm(optimum))


def own_size(small: bool, folder: Path) -> Finding:
    """Compare the kept run with the printed numbers."""
    document = json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    near = {"error": 0, "diagonal": 0}
    count, parts = 0, []
    for row in document["rows"]:
        number = slides.printed(row["method"], row["epsilon"], "colon")
        if number == slides.NOT_AVAILABLE or row["error"] is None:
            continue
        count += 1
        for key in near:
            near[key] += row[key] is not None and abs(row[key] - number) <= slides.CLOSE
    for method in SHOWN:
        own = [row for row in document["rows"] if row["method"] == method]
        errors = [f"{row['error']:.3g}" for row in reversed(own) if row["error"] is not None]
        parts.append(f"{method} {', '.join(errors) or 'not measured'}")
    return Finding(
        f"of {count} cells within {slides.CLOSE:g} at rho = {RHO:g}: {near['error']} with our "
        f"projection, {near['diagonal']} without; errors with it: {'; '.join(parts)} (kept run of "
        f"commit {document['commit']})",
        max(near.values()) == count,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="also the problems with pure noise")
    everything = parser.parse_args().all
    left_out = {slides.SULQ} if everything else {slides.SULQ, *PURE}
    table = Table(NAME, scaled(datasets.colon(datasets.GENES)))
    optimum = solve_components(table.moment, RHO, tol=GAP)[0]
    kept = Kept(KEPT, f"make colon{' ARGS=--all' * everything}")
    for method in METHODS:
        projected = method not in left_out
        kept.part(method, partial(cells, method, table, optimum, projected=projected))
    return int(not kept.done())


if __name__ == "__main__":
    sys.exit(main())
