"""Pictures of the demo's report, as a browser shows it.

`make bench NAME=report_picture` needs Chromium. It writes the README's picture, the top of the
report. In results/report it writes the whole report at three widths, light, dark and printed.
`tests/test_report_in_browser.py` checks the same pages for clipped text. The release is new, so its
last digits change.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "figures" / "report.png"
PICTURES = ROOT / "results" / "report"
SIZE = (900, 1270)
COLOURS = 256
WIDTHS = (1280, 768, 390)
PAPER = 680  # CSS pixels of A4 without its margins
TARGET = "systolic"
REST = "<style>section:not(#correlations), footer { display: none }</style></head>"  # is hidden
sys.path.insert(0, str(ROOT / "tests"))
from browser import Browser, executable  # noqa: E402 (the tests are no package)


def shots(browser: Browser, page: Path) -> None:
    """Write the whole page at each width and in each theme, and as a printer shows it."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    for width in WIDTHS:
        for dark in (False, True):
            browser.open(page, width, dark=dark)
            name = f"{width}-{'dark' if dark else 'light'}.png"
            (PICTURES / name).write_bytes(browser.picture())
    browser.open(page, PAPER, printed=True)
    (PICTURES / "printed.png").write_bytes(browser.picture())
    (PICTURES / "printed.pdf").write_bytes(browser.printed())


def main() -> None:
    found = executable()
    if found is None:
        raise SystemExit("Chromium is needed: none is on the path.")
    report = f"report demo/visits.release.json --target {TARGET} --out page.html"
    with TemporaryDirectory() as folder, Browser(found) as browser:
        for command in ("demo", report):
            line = [sys.executable, "-c", "from dpcov.cli import main; main()", *command.split()]
            subprocess.run(line, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        page = Path(folder, "page.html")
        shots(browser, page)
        page.write_text(page.read_text().replace("</head>", REST, 1))
        browser.open(page, SIZE[0])
        (top := Path(folder, "page.png")).write_bytes(browser.picture())
        with Image.open(top) as shot:
            cut = shot.crop((0, 0, SIZE[0], min(SIZE[1], shot.height)))
            cut.convert("RGB").quantize(COLOURS).save(PICTURE, optimize=True)
    for path in (PICTURE, *sorted(PICTURES.iterdir())):
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
