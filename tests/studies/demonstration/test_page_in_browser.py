"""The page in a real Chromium: it fits, it can be read, its tooltips tell the measured rates."""

import re
import shutil
from dataclasses import replace

import pytest
import synthetic
from playwright.sync_api import sync_playwright
from rig import PATIENCE_S

from studies.demonstration.report import write

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
]


@pytest.fixture(scope="module")
def browser():
    chromium = shutil.which("chromium")
    assert chromium, "Chromium is needed: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=FLAGS, timeout=1000 * PATIENCE_S
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return write(synthetic.result(), tmp_path_factory.mktemp("page"))


@pytest.fixture
def opened(browser, written):
    """Opens the page; whatever it fetches or complains of afterwards fails the test."""
    contexts, complaints = [], []

    def show(width=1280, scheme="light", path=written):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
        )
        contexts.append(context)
        context.set_default_timeout(1000 * PATIENCE_S)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("request", lambda request: complaints.append(request.url))
        page.goto(path.as_uri())
        complaints.remove(path.as_uri())
        return page

    yield show
    assert complaints == []
    for context in contexts:
        context.close()


@pytest.mark.parametrize("width", [1280, 768, 400, 320])
def test_nothing_sticks_out_sideways(opened, width):
    page = opened(width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [1280, 400])
def test_plots_have_room_and_names_do_not_collide(opened, width):
    page = opened(width)
    for plot in page.locator(".plot.tall, .plot.slim").all():
        box = plot.bounding_box()
        assert box["width"] > 120
        assert box["height"] > 30
    boxes = [node.bounding_box() for node in page.locator(".map .node").all()]
    for index, a in enumerate(boxes):
        for b in boxes[index + 1 :]:
            apart = (
                a["x"] + a["width"] <= b["x"]
                or b["x"] + b["width"] <= a["x"]
                or a["y"] + a["height"] <= b["y"]
                or b["y"] + b["height"] <= a["y"]
            )
            assert apart, f"{a} and {b} overlap"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_background(opened, scheme):
    page = opened(scheme=scheme)
    paper = colour(page, "body", "backgroundColor")
    for selector in ("h1", ".lead", ".hit", ".miss", ".by-weir", ".by-plain", ".tick", "td"):
        assert contrast(colour(page, selector, "color"), paper) >= 4.5, selector


def test_light_and_dark_differ(opened):
    papers = {
        scheme: luminance(colour(opened(scheme=scheme), "body", "backgroundColor"))
        for scheme in ("light", "dark")
    }
    assert papers["light"] > 0.8
    assert papers["dark"] < 0.05


def test_a_tooltip_tells_the_rate_under_the_pointer(opened):
    page = opened()
    result = synthetic.result()
    plot = page.locator('.plot[data-kind="flow"][data-half="weir"][data-id="beamtime"]')
    box = plot.bounding_box()
    span = max(result.weir.end_s, result.plain.end_s) * 1.03
    plot.scroll_into_view_if_needed()
    plot.hover(position={"x": box["width"] * 5.0 / span, "y": box["height"] / 2})
    tip = page.locator("#tip")
    tip.wait_for(state="visible")
    rate = result.weir.timeline.flows_bps["beamtime"][int(5.0 / synthetic.STEP_S)] / 1e6
    shown = float(re.search(r"([\d.]+) Mbit/s", tip.inner_text()).group(1))
    assert shown == pytest.approx(rate, abs=0.06)
    at = float(tip.locator("b").inner_text().removesuffix(" s"))
    assert at == pytest.approx(5.0, abs=0.11)
    page.mouse.move(1, 1)
    tip.wait_for(state="hidden")


def test_the_deadline_mark_stands_at_the_deadline(opened):
    page = opened()
    result = synthetic.result()
    span = max(result.weir.end_s, result.plain.end_s) * 1.03
    for delivery in result.weir.deliveries[3:]:
        row = f'.plot[data-half="weir"][data-id="{delivery.id}"]'
        plot = page.locator(row).bounding_box()
        mark = page.locator(f"{row} line.deadline").bounding_box()
        share = (mark["x"] + mark["width"] / 2 - plot["x"]) / plot["width"]
        assert share * span == pytest.approx(delivery.submitted_s + delivery.deadline_s, abs=0.15)


def test_a_page_of_losses_still_reads(opened, tmp_path):
    result = synthetic.result()
    rows = [replace(row, finish_s=None, verified=False) for row in result.weir.deliveries]
    lost = replace(result, weir=replace(result.weir, deliveries=rows))
    page = opened(400, path=write(lost, tmp_path))
    assert "0 of 7 files on time with Weir" in page.locator("h1").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def colour(page, selector, name):
    text = page.locator(selector).first.evaluate(f"e => getComputedStyle(e).{name}")
    return [int(part) / 255 for part in re.findall(r"\d+", text)[:3]]


def luminance(rgb):
    """Relative luminance, WCAG 2.2."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    """Contrast ratio, WCAG 2.2: 4.5 is the least for body text."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
