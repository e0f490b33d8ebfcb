"""Attack the ledger: kills, races, bad disks, damage, clocks, mixes of budgets."""

from __future__ import annotations

import math
import os
import random
import re
import stat
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

from dpcov.api import ledger as ledger_module
from dpcov.api.ledger import Ledger
from dpcov.core.privacy import ZCDP, ApproxDP, Budget, Guarantee, Neighbors, PureDP
from dpcov.errors import BudgetExceededError, DpcovError, LedgerError
from dpcov.papers.accounting import GDP, numeric_delta
from figure import Figure

BASE = 0.05
GRID = 1e-4
WORKER = Path(__file__).with_name("releases_at_work.py")
READ_ONLY = """
import os, sys
from pathlib import Path
import numpy as np
import dpcov
from dpcov.errors import LedgerError

folder = Path(sys.argv[1])
table = np.zeros((9, 2))
dpcov.release(table, lower=0.0, upper=1.0, epsilon=1.0)  # imports what a release needs
(folder / "x.ledger").chmod(0o444)
folder.chmod(0o555)
if os.geteuid() == 0:
    os.seteuid(65534)  # permissions do not bind root
try:
    dpcov.release(table, lower=0.0, upper=1.0, epsilon=0.1, ledger=folder / "x.ledger")
except LedgerError as error:
    print(error)
"""


def of(budget: Budget) -> Guarantee:
    """Return a guarantee with this budget."""
    return Guarantee(budget, Neighbors.ADD_REMOVE)


def at_work(folder: Path, budget: float, count: int, kind: str) -> list[int]:
    """Run real releases of `kind` against a new ledger, and return their exit codes."""
    Ledger.create(folder / "x.ledger", PureDP(budget))
    (folder / "drawn").touch()
    command = [sys.executable, str(WORKER), str(folder), str(count), kind, str(BASE)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return list(map(int, done.stdout.split()))


def drawn(folder: Path) -> Counter[float]:
    """Count the epsilons of the releases that drew noise."""
    text = (folder / "drawn").read_text()
    return Counter(map(float, re.findall(r"^drawn (\S+)$", text, re.M)))


def counted(folder: Path) -> Counter[float]:
    """Count the epsilons in the ledger."""
    entries = Ledger.open(folder / "x.ledger").account().entries
    return Counter(entry.guarantee.budget.epsilon for entry in entries)  # type: ignore[union-attr]


def kills(count: int) -> list[Figure]:
    """Kill `count` releases at random points, and also releases that draw before they record."""
    figures = []
    for kind, wanted in (("kill", "0"), ("careless", "> 0")):
        with TemporaryDirectory() as place:
            folder = Path(place)
            codes = at_work(folder, 1e6, count, kind)
            missing = (drawn(folder) - counted(folder)).total()
            more = (counted(folder) - drawn(folder)).total()
            killed, made = codes.count(-9), codes.count(0)
            what = f"kill -9 at {killed} random points ({made} finished)"
            if kind == "careless":
                what = f"control: noise before the entry, {killed} kills"
            ok = (missing == 0 and killed == count) if kind == "kill" else missing > 0
            figures.append(
                Figure("ledger: crashes", f"{what}: under-counted", wanted, str(missing), ok)
            )
            if kind == "kill":
                figures.append(
                    Figure("ledger: crashes", "over-counted", "<= kills", str(more), more <= killed)
                )
    return figures


def race() -> Figure:
    """Run 32 processes that release at once, for 20 slots."""
    with TemporaryDirectory() as place:
        folder = Path(place)
        codes = Counter(at_work(folder, 20 * BASE, 32, "race"))
        numbers = codes[0], drawn(folder).total(), counted(folder).total()
        ok = numbers == (20, 20, 20) and codes[2] == 12
        found = "released {}, drawn {}, counted {}".format(*numbers)
        return Figure("ledger: races", "32 processes for 20 slots", "20 each", found, ok)


def full_disk(count: int) -> Figure:
    """Run releases while files cannot grow."""
    with TemporaryDirectory() as place:
        folder = Path(place)
        codes = Counter(at_work(folder, 1e6, count, "limited"))
        missing = (drawn(folder) - counted(folder)).total()
        ok = missing == 0 and codes[2] > 0 and set(codes) <= {0, 2}
        what = f"{count} releases with little or no free space ({codes[2]} refused): under-counted"
        return Figure("ledger: full disk", what, "0", str(missing), ok)


def read_only() -> Figure:
    """Run a release against a ledger that cannot be written."""
    with TemporaryDirectory() as place:
        folder = Path(place)
        ledger = Ledger.create(folder / "x.ledger", PureDP(1.0))
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, place], capture_output=True, text=True, check=True
        )
        folder.chmod(stat.S_IRWXU)
        refused = "its folder is read-only" in done.stdout
        ok = refused and not ledger.account().entries
        found = "refused, nothing spent" if ok else "not refused"
        return Figure("ledger: read-only disk", "a release", "refused", found, ok)


def clock() -> Figure:
    """Spend while the clock goes back by decades."""
    with TemporaryDirectory() as place:
        ledger = Ledger.create(Path(place) / "x.ledger", PureDP(1.0))
        kept = ledger_module.datetime
        try:
            for year in (2100, 2030, 1999, 1971):
                now = SimpleNamespace(now=lambda zone, year=year: datetime(year, 1, 1, tzinfo=zone))
                ledger_module.datetime = now  # type: ignore[assignment,misc]
                ledger.reserve(of(PureDP(0.1)))
        finally:
            ledger_module.datetime = kept  # type: ignore[misc]
        account = ledger.account()
        ok = account.spent == {"epsilon": 0.4} and ledger.verify() is not None
        years = [entry.time[:4] for entry in account.entries]
        found = f"spent {account.spent['epsilon']}, in order {', '.join(years)}"
        return Figure("ledger: clock going back", "4 spends of 0.1", "spent 0.4", found, ok)


def damage(count: int) -> list[Figure]:
    """Damage ledgers: overwrite bytes, cut bytes out, or insert a page of an older copy."""
    chance, tally = random.Random(0), Counter[str]()  # noqa: S311
    with TemporaryDirectory() as place:
        path = Path(place) / "x.ledger"
        ledger = Ledger.create(path, PureDP(10.0))
        for number in range(40):
            if number == 20:
                older = path.read_bytes()
            ledger.reserve(of(PureDP(0.1)))
        content, before = path.read_bytes(), ledger.account()
        used = [at for at, byte in enumerate(content) if byte]
        for _ in range(count):
            mutant = bytearray(content)
            at, kind = chance.choice(used), chance.randrange(4)
            if kind == 0:
                mutant[at] ^= 1 << chance.randrange(8)
            elif kind == 1:
                mutant[at : at + 16] = chance.randbytes(16)
            elif kind == 2:
                del mutant[at : at + chance.randint(1, 5000)]
            else:
                page = at // 4096 * 4096
                mutant[page : page + 4096] = older[page : page + 4096]
            path.write_bytes(mutant)
            try:
                ledger.reserve(of(PureDP(0.1)))
                ledger = Ledger.open(path)
                same = ledger.account().entries[:40] == before.entries
                tally["harmless" if same else "spent from"] += 1
            except LedgerError:
                tally["refused"] += 1
            except Exception:
                tally["traceback"] += 1
    attack = "ledger: corrupted file"
    refused = (
        f"{count} mutants ({tally['refused']} refused, {tally['harmless']} unchanged in meaning)"
    )
    return [
        Figure(attack, f"{refused}: {what}", "0", str(tally[what]), tally[what] == 0)
        for what in ("spent from", "traceback")
    ]


def two_data_sets(count: int) -> Figure:
    """Spend at random from threads on two data sets of one ledger."""
    with TemporaryDirectory() as place:
        path = Path(place) / "x.ledger"
        for name in ("wards", "staff"):
            ledger = Ledger.create(path, PureDP(0.1 * count / 4), dataset=name)

        def spend(number: int) -> str:
            name = ("wards", "staff")[number % 3 % 2]
            try:
                ledger.reserve(of(PureDP(0.1)), dataset=name)
            except BudgetExceededError:
                return ""
            return name

        with ThreadPoolExecutor(8) as threads:
            given = Counter(threads.map(spend, range(count)))
        wrong = sum(
            abs(len(ledger.account(name).entries) - given[name]) for name in ("wards", "staff")
        )
        what = f"{count} spends on two data sets, from 8 threads: entries astray"
        ok = wrong == 0 and given["wards"] == count // 4
        return Figure("ledger: two data sets", what, "0", str(wrong), ok)


def mixes(count: int) -> list[Figure]:
    """Draw random mixes of guarantees that a ledger admits, and check them with dp-accounting."""
    budget, chance = ApproxDP(2.0, 1e-6), random.Random(1)  # noqa: S311
    worst, spends = 0.0, 0
    with TemporaryDirectory() as place:
        for number in range(count):
            ledger = Ledger.create(Path(place) / f"{number}.ledger", budget, count="sums")
            for _ in range(60):
                size = chance.uniform(0.02, 0.5)
                choices: list[Budget] = [PureDP(size), ZCDP(size**2 / 8), ApproxDP(size, 2e-9)]
                try:
                    ledger.reserve(of(chance.choice(choices)))
                except BudgetExceededError:
                    continue
            taken = [entry.guarantee.budget for entry in ledger.account().entries]
            steps = [GDP(math.sqrt(2 * s.rho)) if isinstance(s, ZCDP) else s for s in taken]
            # dp-accounting rounds each loss up to the grid: from this epsilon on that can't matter.
            epsilon = budget.epsilon + GRID * len(steps)
            worst = max(worst, numeric_delta(steps, epsilon, grid=GRID) / budget.delta)
            spends += len(taken)
    too_much = numeric_delta(steps * 4, budget.epsilon + 4 * GRID * len(steps), grid=GRID)
    control = too_much / budget.delta
    attack = "ledger: composition"
    what = f"{count} mixes of pure, rho and (epsilon, delta), {spends} spends: true delta / budget"
    return [
        Figure(attack, what, "<= 1", f"{worst:.3g}", worst <= 1),
        Figure(attack, "control: four times the last mix", "> 1", f"{control:.3g}", control > 1),
    ]


def measure(quick: bool) -> list[Figure]:
    """Run all attacks."""
    if os.name != "posix":
        raise DpcovError("These attacks need POSIX processes and permissions.")
    return [
        *kills(40 if quick else 210),
        race(),
        full_disk(20 if quick else 100),
        read_only(),
        clock(),
        *damage(200 if quick else 3000),
        two_data_sets(40 if quick else 200),
        *mixes(2 if quick else 20),
    ]
