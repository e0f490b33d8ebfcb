"""The README's picture: the top of the demo's report, as a browser shows it.

`make bench NAME=report_picture` needs Chromium. The release is new, so its last digits change.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "figures" / "report.png"
SIZE = (900, 1270)
COLOURS = 256
REST = "<style>section:not(#correlations), footer { display: none }</style></head>"  # is hidden
sys.path.insert(0, str(ROOT / "tests"))
from browser import executable  # noqa: E402 (the tests are no package)


def main() -> None:
    found = executable()
    if found is None:
        raise SystemExit("Chromium is needed: none is on the path.")
    with TemporaryDirectory() as folder:
        for command in ("demo", "report demo/visits.release.json --out page.html"):
            line = [sys.executable, "-c", "from dpcov.cli import main; main()", *command.split()]
            subprocess.run(line, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        page = Path(folder, "page.html")
        page.write_text(page.read_text().replace("</head>", REST, 1))
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        sized = f"--window-size={SIZE[0]},{SIZE[1]}"
        subprocess.run(
            [found, *flags, sized, f"--screenshot={folder}/page.png", page.as_uri()],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        with Image.open(Path(folder, "page.png")) as shot:
            shot.convert("RGB").quantize(COLOURS).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
