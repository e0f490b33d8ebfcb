"""Compare alternatives to the default: the directions round, clipping, shrinkage, and norm bands.

    make bench NAME=tried

The errors are the errors of `before_and_now`. The script has four parts:

- *Shares* compares the default with every fixed fraction of the budget for the directions round,
  and with no directions round. The default chooses the fraction from the pilot's number of rows.
  The tables are the tables of the part `tune` for which the default has this round.
- *Weights* uses the same tables. It gives the clipping bias less or more weight in the choice of
  the clipping radius, as goals do.
- *Pulls* varies how far the pilot moves a mean or a variance that differs from the others. It uses
  all tables of the part `tune`.
- *Bands* replaces clipping: rows beyond the radius go into separate matrices, one for each band of
  norms. Each band has four times the squared norm of the band before, with proportional noise.
  Each row is in only one band, so under add/remove the bands cost no extra budget.

The part *Bands* is a simulation with the row transform, the radius and the noise of a release. The
part of a band that is below the noise level is isotropic. The simulation favours both methods: it
uses the exact norms and the best radius in hindsight. The tables are tables of the part `tune` with
long tails.
"""

from __future__ import annotations

import math
import sys
from dataclasses import asdict
from itertools import product
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

import dpcov
from before_and_now import BUDGETS, Truth, errors
from calibration import encoded
from dpcov.core.privacy import Neighbors, PureDP
from dpcov.mechanisms import standardized
from dpcov.mechanisms.choice import choose
from dpcov.mechanisms.standardized import BY_DIRECTION
from judge import log_ratio
from judged_tables import PARTS, Table, table_named
from results import Kept, show

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.releases import Release

    Matrix = NDArray[np.float64]

SHARES = (0.0, *(BY_DIRECTION.directions_share * 2**k for k in range(4)))
BY_ROWS = "by rows"
PULLS = (0.0, 1.0, standardized.MAX_SHRINKAGE_SDS, 4.0, math.inf)  # deviations of noise
WEIGHTS = (0.2, 0.35, 0.5, 0.7, 1.0, 2.0, 3.0)
SEEDS, SIMULATED = 24, 6
REACHES = (0.5, 0.7, 1.0, 1.4, 2.0, 4.0)  # clipping radii over the radius of the release
SHOWN = ("means", "correlation", "ols", "relative", "frobenius")
HEAVY = ("casp", "diamonds", "parkinsons")
Row = dict[str, Any]


def by_shares(name: str) -> list[Row]:
    """Measure errors of releases with each fixed fraction, and with the fraction by rows."""
    fixed = {"mechanism": BY_DIRECTION.name, "look_share": BY_DIRECTION.look_share}
    asked = {f"{share:g}": {**fixed, "directions_share": share} for share in SHARES}
    return by_options("shares", name, {**asked, BY_ROWS: {}})


def by_weights(name: str) -> list[Row]:
    """Measure errors of releases that give the clipping bias less or more weight."""
    plain = {"mechanism": BY_DIRECTION.name, **asdict(BY_DIRECTION)}
    whole = plain | {"power": 0.0, "directions_power": 0.5}
    asked = {
        f"{word} {weight:g}": options | {"loss_weight": weight}
        for (word, options), weight in product((("all", plain), ("whole", whole)), WEIGHTS)
    }
    return by_options("weights", name, asked)


def by_options(part: str, name: str, asked: dict[str, dict[str, Any]]) -> list[Row]:
    """Measure errors of releases with these options; skip tables without a directions round."""
    schema = dpcov.Schema.parse(table_named(name).declared())
    if choose(schema, PureDP(1.0), Neighbors.ADD_REMOVE).mechanism != BY_DIRECTION:
        return []
    return [row for taken, options in asked.items() for row in rows_of(part, name, taken, options)]


def by_pulls(name: str) -> list[Row]:
    """Measure errors of releases whose pilot moves a number by at most so many noise deviations."""
    rows = []
    for pull in PULLS:
        with patch.object(standardized, "MAX_SHRINKAGE_SDS", pull):
            rows += rows_of("pulls", name, f"{pull:g}", {})
    return rows


def rows_of(part: str, name: str, taken: str, options: dict[str, Any]) -> list[Row]:
    """Measure errors of releases with these options at each budget."""
    table, rows = table_named(name), []
    truth = Truth.of(table)
    for (kind, size), seed in product(BUDGETS, range(SEEDS)):
        budget = {kind: size}
        made = released(table, budget, seed, **options)
        told = errors((made.count(), made.mean(), made.covariance()), truth)
        rows.append({"part": part, "table": name, **budget, "taken": taken, **told})
    return rows


def by_bands(name: str) -> list[Row]:
    """Measure errors of one clipped matrix and of bands, with the same row transforms."""
    table, rows = table_named(name), []
    truth = Truth.of(table)
    for (unit, size), seed in product(BUDGETS, range(SIMULATED)):
        budget = {unit: size}
        made = released(table, budget, seed)
        center = 0.0 if made.center is None else made.center
        map_ = np.eye(len(made.scales)) if made.linear_map is None else made.linear_map
        images = (encoded(table, made) - center) @ map_.T
        for (kind, summed), reach in product((("clip", clip), ("bands", bands)), REACHES):
            radius = reach * made.lattice.radius
            noise = made.noise.diagonal_variance**0.5 * made.lattice.step**2 * reach**2
            sums, moment = summed(images, radius, noise, np.random.default_rng(seed))
            answer = read(made, map_, center, len(images), sums, moment)
            told = errors(answer, truth)
            taken = f"{kind} {reach:g}"
            rows.append({"part": "bands", "table": name, **budget, "taken": taken, **told})
    return rows


def released(table: Table, budget: dict[str, float], seed: int, **options: Any) -> Release:
    schema = dpcov.Schema.parse(table.declared())
    return dpcov.release(table.frame, schema=schema, seed=seed, **budget, **options)


def noisy(
    images: Matrix, radius: float, noise: float, rng: np.random.Generator
) -> tuple[Matrix, Matrix]:
    """Return noisy sums and the noisy second moment of transformed rows up to a radius."""
    p = images.shape[1]
    drawn = np.triu(rng.normal(scale=noise, size=(p, p)))
    sums = images.sum(axis=0) + rng.normal(scale=noise / radius, size=p)
    return sums, images.T @ images + drawn + np.triu(drawn, 1).T


def clip(
    images: Matrix, radius: float, noise: float, rng: np.random.Generator
) -> tuple[Matrix, Matrix]:
    lengths = np.linalg.norm(images, axis=1)
    short = images * (radius / np.maximum(lengths, radius))[:, None]
    sums, moment = noisy(short, radius, noise, rng)
    taken = (images**2).sum() - (short**2).sum()
    return sums, moment + np.eye(len(moment)) * taken / len(moment)


def bands(
    images: Matrix, radius: float, noise: float, rng: np.random.Generator
) -> tuple[Matrix, Matrix]:
    lengths = np.linalg.norm(images, axis=1)
    sums, moment = noisy(images[lengths <= radius], radius, noise, rng)
    p = len(moment)
    while radius < lengths.max():
        radius, noise = 2 * radius, 4 * noise
        own = images[(lengths > radius / 2) & (lengths <= radius)]
        some, band = noisy(own, radius, noise, rng)
        values, vectors = np.linalg.eigh(band)
        edge = noise * np.sqrt(p)
        kept = np.where(values > 2 * edge, values - edge**2 / np.maximum(values, edge), 0.0)
        rest = max(0.0, (own**2).sum() - kept.sum()) / p
        moment = moment + (vectors * kept) @ vectors.T + rest * np.eye(p)
        sums = sums + some * max(0.0, 1 - p * (noise / radius) ** 2 / (some @ some))
    return sums, moment


def read(
    made: Release, map_: Matrix, center: Any, n: int, sums: Matrix, moment: Matrix
) -> tuple[int, Matrix, Matrix]:
    """Return the count, means and covariance in the table's units from transformed sums."""
    mean, back = sums / n, np.linalg.inv(map_)
    values, vectors = np.linalg.eigh(moment / n - np.outer(mean, mean))
    inside = (vectors * np.maximum(values, 1e-9 * values.max())) @ vectors.T
    whole = back @ inside @ back.T * np.outer(made.scales, made.scales)
    return n, (back @ mean + center) * made.scales + made.centers, whole


def over(rows: list[Row], part: str, one: Any, other: Any) -> list[Row]:
    """Compare the least errors in the two selections of rows, by kind of budget."""
    found = []
    for kind in ("epsilon", "rho"):
        cells = {(row["table"], row[kind]) for row in rows if kind in row and row["part"] == part}
        logs = [
            log_ratio(_best(rows, part, kind, cell, one), _best(rows, part, kind, cell, other))
            for cell in cells
        ]
        mean, most = np.nanmean(logs, axis=0), np.nanmax(logs, axis=0)
        for word, line in (("mean", mean), ("worst", most)):
            ratios = dict(zip(SHOWN, np.exp(line).tolist(), strict=True))
            found.append({"budget": kind, "": word, "cells": len(logs), **ratios})
    return found


def _best(rows: list[Row], part: str, kind: str, cell: tuple[str, float], which: Any) -> Matrix:
    """Return the least mean error of each kind among the selected rows of a cell."""
    by: dict[str, list[list[float]]] = {}
    for row in rows:
        if row["part"] == part and (row["table"], row.get(kind)) == cell and which(row["taken"]):
            by.setdefault(row["taken"], []).append([row[error] for error in SHOWN])
    return np.min([np.mean(each, axis=0) for each in by.values()], axis=0)


def main() -> int:
    kept = Kept("tried.json", "make bench NAME=tried")
    there = {(row["part"], row["table"]) for row in kept.go_on()}
    parts = (
        ("shares", by_shares, PARTS["tune"]),
        ("weights", by_weights, PARTS["tune"]),
        ("pulls", by_pulls, PARTS["tune"]),
        ("bands", by_bands, HEAVY),
    )
    for part, work, names in parts:
        kept.pooled(work, [name for name in names if (part, name) not in there])
    for share in SHARES:
        rows = over(kept.rows, "shares", BY_ROWS.__eq__, f"{share:g}".__eq__)
        show(f"By rows, over a fixed share of {share:g}", rows)
    for word, weight in product(("all", "whole"), WEIGHTS):
        rows = over(kept.rows, "weights", f"{word} {weight:g}".__eq__, f"{word} 1".__eq__)
        show(f"For {word}, clips counting {weight:g}, over 1", rows)
    for pull in PULLS:
        rows = over(
            kept.rows, "pulls", f"{pull:g}".__eq__, f"{standardized.MAX_SHRINKAGE_SDS:g}".__eq__
        )
        show(f"Means and variances moved by {pull:g} deviations at most, over what is kept", rows)
    several = [lambda taken, kind=kind: taken.startswith(kind) for kind in ("bands", "clip")]
    show("Bands over one clipped matrix, best radii", over(kept.rows, "bands", *several))
    same = over(kept.rows, "bands", "bands 1".__eq__, "clip 1".__eq__)
    show("Bands over one clipped matrix, the release's radius", same)
    return int(not kept.done())


if __name__ == "__main__":
    sys.exit(main())
