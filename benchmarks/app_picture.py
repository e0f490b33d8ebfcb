"""The picture of `dpcov app` in the documentation: described columns and live half widths.

`make bench NAME=app_picture` needs Chromium. The half widths are simulated, so their last digits
can change.
"""

from __future__ import annotations

import io
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from app_by_keyboard import KINDS, table
from app_keyboard import Keyboard, described, served
from browser import Browser, executable

PICTURE = Path(__file__).parents[1] / "docs" / "figures" / "app.png"
WIDTH = 760
COLOURS = 64


def main() -> None:
    path = executable()
    if path is None:
        raise SystemExit("Chromium is needed: none is on the path.")
    write, task = KINDS["Parquet"]
    with TemporaryDirectory() as place:
        folder = Path(place, "study")
        folder.mkdir()
        write(table(), folder / task.file)
        with served(folder) as opening, Browser(path) as browser:
            browser.open(opening, WIDTH)
            keyboard = Keyboard(browser)
            keyboard.wait("document.title.startsWith('Tables')")
            keyboard.follow(f'a[href*="file={task.file}"]')
            described(keyboard, task)
            shot = browser.picture()
    with Image.open(io.BytesIO(shot)) as picture:
        picture.convert("RGB").quantize(COLOURS).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
