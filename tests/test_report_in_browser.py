"""The page in a real browser: layout, console and network, on screens and on paper."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("jinja2", reason="the page needs the extra `report`")

from browser import Browser, executable
from dpcov.report import write
from pages_for_tests import HOSTILE, hostile, numeric, wide

CHROMIUM = executable()
WIDTHS = (390, 768, 1280)
HIDDEN = "<div style='width:9px;overflow:hidden'>clipped</div>"  # a fault for the control
PHONE, PAPER = 390, 680  # CSS pixels; A4 without its margins is 680 wide
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed"),
]

# Elements that stick out of the window and of every box that scrolls; texts on top of each other.
STICKING_OUT = """
[...document.querySelectorAll("body *")].filter(element => {
  const box = element.getBoundingClientRect();
  if (element.closest(".scroll, .skip, nav ul, caption") || box.width === 0) return false;
  return box.right > innerWidth + 1 || box.left < -1;
}).map(element => element.outerHTML.slice(0, 80))
"""
OVERLAPPING = """
[...document.querySelectorAll("main > section, main > .named")].filter((part, at, all) =>
  at && part.getBoundingClientRect().top < all[at - 1].getBoundingClientRect().bottom - 1
).map(part => part.id)
"""
# Elements that hide or scroll what is wider than their box, and texts of a figure outside it.
CLIPPED = """
[...document.querySelectorAll("body *")].filter(element => {
  if (element.closest(".skip, caption, svg") || !element.getClientRects().length) return false;
  if (innerWidth < 608 && element.closest("thead")) return false;  // for screen readers
  const cut = getComputedStyle(element).overflowX !== "visible";
  return cut && element.scrollWidth > element.clientWidth + 1;
}).concat([...document.querySelectorAll("svg text")].filter(text => {
  const own = text.getBoundingClientRect(), all = text.closest("svg").getBoundingClientRect();
  return own.width && (own.right > all.right + 1 || own.left < all.left - 1
    || own.bottom > all.bottom + 1 || own.top < all.top - 1);
})).map(element => element.outerHTML.slice(0, 80))
"""
# Tables whose rows are not cards: blocks as wide as the page, with a label in front of each figure.
NO_CARDS = """
[...document.querySelectorAll("main tbody tr")].filter(row => row.getClientRects().length && (
  !["block", "grid"].includes(getComputedStyle(row).display)
  || [...row.querySelectorAll("td:not(:empty)")].some(cell => cell.dataset.label
    && !getComputedStyle(cell, "::before").content.includes(cell.dataset.label.replace(/"/g, "")))
)).length
"""
# Folded parts that show nothing, and headings that may be torn from what follows.
FOLDED = """
[...document.querySelectorAll("details > :not(summary)")].filter(part => {
  const box = part.getBoundingClientRect();
  return box.height < 1 || !part.checkVisibility({contentVisibilityAuto: true});
}).length
"""
TORN = """
[...document.querySelectorAll("h2, h3, .lead, summary, figcaption")].filter(element =>
  getComputedStyle(element).breakAfter !== "avoid").length
"""
# Least contrast with the page; texts with a background of their own (the stamp, and figures in the
# deepest colours of a heatmap, which are black) are left out.
CONTRAST = """
(() => {
  const light = colour => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map(c => {
      c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  return Math.min(...[...document.querySelectorAll("p, h1, h2, td, th, dt, dd, a, summary, text")]
    .filter(e => !e.closest(".stamp") && (e.tagName !== "text" || e.outerHTML.includes("fill:")))
    .map(element => {
      const style = getComputedStyle(element);
      const ink = light(element.tagName === "text" ? style.fill : style.color);
      return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    }));
})()
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    return {
        "few": write(numeric(10), folder / "few.html", target="column 3"),
        "wide": write(wide(), folder / "wide.html", target="measure 0"),
        "hostile": write(hostile(), folder / "hostile.html", target=HOSTILE[7]),
        "seeded": write(numeric(4, seed=1), folder / "seeded.html"),
    }


@pytest.fixture(scope="module")
def browser():
    with Browser(str(CHROMIUM)) as opened:
        yield opened


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["few", "wide", "hostile", "seeded"])
def test_a_page_fits_its_window_and_the_console_is_silent(
    name, width, dark, pages, browser, tmp_path
):
    browser.open(pages[name], width, dark=dark)
    assert browser.complaints() == []
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value(STICKING_OUT) == []
    assert browser.value(OVERLAPPING) == []
    assert browser.value(CLIPPED) == []
    assert (browser.value(NO_CARDS) == 0) == (width == PHONE)
    assert browser.value(CONTRAST) >= 4.5
    assert browser.value("document.body.dataset.harmed") is None
    picture = tmp_path / f"{name}-{width}.png"
    picture.write_bytes(browser.picture())
    assert picture.stat().st_size > 20_000


@pytest.mark.parametrize("name", ["few", "wide", "hostile"])
def test_print_shows_what_is_folded_and_cuts_nothing(name, pages, browser):
    browser.open(pages[name], PAPER)
    assert browser.value(FOLDED) > 0  # control: on a screen, it is folded
    browser.open(pages[name], PAPER, printed=True)
    assert browser.value(FOLDED) == 0
    assert browser.value(TORN) == 0
    assert browser.value(STICKING_OUT) == []
    assert browser.value("document.documentElement.scrollWidth") <= PAPER
    assert browser.value(CLIPPED) == []


def test_the_page_of_108_features_is_small(pages):
    assert pages["wide"].stat().st_size < 1.5e6


def test_a_page_prints_on_a4(pages, browser):
    browser.open(pages["wide"], 1280)
    printed = browser.printed()
    assert printed.startswith(b"%PDF")
    sheets = printed.count(b"/Type /Page\n")
    assert 4 <= sheets <= 24  # with the folded tables of 108 features
    assert b"/MediaBox [0 0 594.95996 841.91998]" in printed


def test_a_page_that_is_too_wide_or_complains_is_caught(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        f"<body style='background:#fff'>{HIDDEN}"
        "<main><p style='width:3000px;color:#aaa'>wide</p></main>"
        "<script>console.error('no'); document.body.dataset.harmed = 1</script></body>"
    )
    browser.open(bad, PHONE)
    assert browser.complaints()
    assert browser.value(STICKING_OUT)
    assert browser.value("document.documentElement.scrollWidth") > PHONE
    assert browser.value(CLIPPED)
    assert browser.value(CONTRAST) < 4.5
    assert browser.value("document.body.dataset.harmed") == "1"
