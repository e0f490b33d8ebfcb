"""`dpcov app` in a real browser, with the keyboard alone.

`make app` does the same with nine kinds of file.
"""

import pytest

pytest.importorskip("werkzeug", reason="the page needs the extra `app`")
pytest.importorskip("waitress", reason="the page needs the extra `app`")

import app_by_keyboard
from browser import executable

CHROMIUM = executable()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed"),
]


def test_the_keyboard_leads_from_a_german_file_to_the_report_and_the_export() -> None:
    seconds, presses, findings = app_by_keyboard.tried_kind("CSV, German", str(CHROMIUM))
    assert findings == []
    assert presses < 300
    assert seconds > 0
