"""The page in a real browser: what a person does, and whether the numbers are Python's."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.explorer.pages import text_of
from shallowflow.explorer.scenes import SCENES

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if CHROMIUM is None:
    pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)", allow_module_level=True)
pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Browser, Page, expect, sync_playwright  # noqa: E402

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
WAIT = 60_000


class Server:
    """`shallowflow explore` in a process of its own."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "shallowflow.cli", "explore", "--no-browser", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(timeout=30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as engine:
        opened = engine.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield opened
        opened.close()


@pytest.fixture
def page(server: Server, browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(server.address)
    drawn(page, 1)
    yield page
    context.close()
    assert said == []


def drawn(page: Page, number: int) -> None:
    """Wait until the answer to that request, or a later one, has been drawn."""
    page.locator(f'body[data-drawn="{number}"]').wait_for(timeout=WAIT)


def now(page: Page) -> int:
    return int(page.locator("body").get_attribute("data-drawn") or 0)


def opened(page: Page, scene: str) -> None:
    before = now(page)
    page.locator(f'#scenes button[data-name="{scene}"]').click()
    drawn(page, before + 1)


def settings(page: Page) -> dict[str, Any]:
    """Return the state that the address holds."""
    from urllib.parse import unquote

    found: dict[str, Any] = json.loads(unquote(page.url.partition("#")[2]))
    return found


def exported(page: Page, kind: str) -> bytes:
    page.locator("#keepers").evaluate("element => element.open = true")
    with page.expect_download(timeout=WAIT) as download:
        page.get_by_role("button", name=kind, exact=True).click()
    return Path(download.value.path()).read_bytes()


@pytest.mark.parametrize("scene", SCENES)
def test_every_scene_opens_plays_and_scrubs(page: Page, scene: str) -> None:
    if scene != "alignment":
        opened(page, scene)
    expect(page.locator("#story")).to_have_text(SCENES[scene].story)
    assert page.locator("#views canvas").count() >= 2
    page.locator("#scrub").fill("1")
    last = page.locator("#time").text_content() or ""
    assert re.search(r"frame (\d+) of \1", last), last
    page.locator("#rewind").click()
    expect(page.locator("#time")).to_contain_text("frame 1 of")
    page.locator("#speed").select_option("4")
    page.locator("#play").click()
    expect(page.locator("#time")).not_to_contain_text("frame 1 of")
    page.locator("#play").click()


def test_a_dragged_point_gives_what_python_gives(page: Page) -> None:
    canvas = page.locator('canvas[data-view="function"]')
    box = canvas.bounding_box()
    assert box is not None
    start = _place(page, canvas, 1)
    page.mouse.move(box["x"] + start[0], box["y"] + start[1])
    page.mouse.down()
    page.mouse.move(box["x"] + start[0] + 30, box["y"] + start[1] - 40, steps=4)
    page.mouse.up()
    expect(page.locator("#status")).to_have_text("ready", timeout=WAIT)
    state = settings(page)
    moved = np.array(state["points"])
    assert tuple(moved[1]) != SCENES["alignment"].handles.points[1]
    data = sf.Dataset(np.column_stack([moved[:, 0], np.ones(3)]), moved[:, 1])
    net = sf.initialize.balanced(200, 2, init_scale=1e-3, seed=0)
    run = sf.gradient_flow(net, data, until=100.0)
    words = page.locator("#words").text_content() or ""
    assert f"The loss ends at {run.losses[-1]:.4g}" in words


def _place(page: Page, canvas: Any, point: int) -> tuple[float, float]:
    """Return where a point is on the picture, from the frame and the limits that the page draws."""
    box = canvas.bounding_box()
    x, y = SCENES["alignment"].handles.points[point]
    points = np.array(SCENES["alignment"].handles.points)
    low, high = points[:, 0].min(), points[:, 0].max()
    reach = 0.15 * (high - low)
    left = 62 + (box["width"] - 76) * (x - low + reach) / (high - low + 2 * reach)
    numbers = json.loads(exported(page, "JSON"))["views"][0]["layers"]
    values = [v for layer in numbers for v in layer["arrays"]["y"]["values"]] + list(points[:, 1])
    bottom, top = min(values), max(values)
    room = 0.06 * (top - bottom)
    share = (y - bottom + room) / (top - bottom + 2 * room)
    return left, 10 + (box["height"] - 52) * (1 - share)


def test_the_address_holds_everything(page: Page, browser: Browser, server: Server) -> None:
    opened(page, "plateau")
    before = now(page)
    page.locator("#control-width").fill("5")
    page.locator("#control-width").blur()
    drawn(page, before + 1)
    words = page.locator("#words").text_content()
    other = page.context.new_page()
    other.goto(page.url)
    drawn(other, 1)
    assert settings(page)["width"] == 5
    assert other.locator("#words").text_content() == words
    assert other.locator("#control-width").input_value() == "5"


def test_undo_redo_and_reset(page: Page) -> None:
    for text in ("150", "120"):
        before = now(page)
        page.locator("#control-width").fill(text)
        page.locator("#control-width").blur()
        drawn(page, before + 1)
    page.locator("#undo").click()
    expect(page.locator("#control-width")).to_have_value("150")
    page.locator("#redo").click()
    expect(page.locator("#control-width")).to_have_value("120")
    page.locator("#reset").click()
    expect(page.locator("#control-width")).to_have_value("200")


def test_rewinding_repeats_exactly(page: Page) -> None:
    first = exported(page, "CSV")
    page.locator("#scrub").fill("0.7")
    page.locator("#rewind").click()
    assert exported(page, "CSV") == first
    before = now(page)
    page.locator("#reset").click()
    drawn(page, before + 1)
    assert exported(page, "CSV") == first


def test_exports_agree_with_python(page: Page, tmp_path: Path, browser: Browser) -> None:
    rows = list(csv.DictReader(io.StringIO(exported(page, "CSV").decode())))
    net = sf.initialize.balanced(200, 2, init_scale=1e-3, seed=0)
    run = sf.gradient_flow(net, sf.data.GENERATORS["three_points"](), until=100.0)
    np.testing.assert_allclose(float(rows[-1]["loss: loss"]), run.losses[-1], rtol=1e-6)
    told = json.loads(exported(page, "JSON"))
    assert told["schema"] == "shallowflow-explorer-1"
    assert len(told["times"]) == len(rows)
    code = exported(page, "Python").decode()
    assert "sf.gradient_flow" in code
    file = tmp_path / "run.trajectory"
    file.write_bytes(exported(page, "trajectory"))
    kept = sf.Trajectory.load(file)
    np.testing.assert_allclose(kept.losses[-1], run.losses[-1], rtol=1e-6)
    svg = exported(page, "SVG").decode()
    assert svg.startswith("<svg")
    assert exported(page, "PNG").startswith(b"\x89PNG")


def test_the_standalone_page_plays_without_a_server(page: Page, tmp_path: Path, browser: Browser) -> None:
    file = tmp_path / "run.html"
    file.write_bytes(exported(page, "HTML"))
    words = page.locator("#words").text_content()
    context = browser.new_context(offline=True)
    alone = context.new_page()
    said: list[str] = []
    alone.on("console", lambda message: said.append(message.text))
    alone.on("pageerror", lambda error: said.append(str(error)))
    alone.goto(file.as_uri())
    drawn(alone, 1)
    assert alone.locator("#words").text_content() == words
    alone.locator("#scrub").fill("1")
    assert "frame 120 of 120" in (alone.locator("#time").text_content() or "")
    assert alone.locator("#control-width").is_disabled()
    context.close()
    assert said == []


def test_bad_values_are_explained_and_the_page_goes_on(page: Page) -> None:
    opened(page, "two-timescales")
    page.locator("#points").evaluate("element => element.open = true")
    fields = page.locator("#table input")
    fields.nth(2).fill("0.55")
    fields.nth(2).blur()
    expect(page.locator("#status")).to_contain_text("no two steps may start at the same x", timeout=WAIT)
    page.locator("#undo").click()
    expect(page.locator("#status")).to_have_text("ready", timeout=WAIT)


def test_keys_move_points_and_time(page: Page) -> None:
    page.locator("body").press("ArrowRight")
    expect(page.locator("#time")).to_contain_text("frame 2 of")
    page.locator("body").press("Home")
    expect(page.locator("#time")).to_contain_text("frame 1 of")
    page.locator("#points").evaluate("element => element.open = true")
    page.locator("#table input").nth(2).focus()
    canvas = page.locator('canvas[data-view="function"]')
    before = now(page)
    canvas.press("ArrowUp")
    drawn(page, before + 1)
    assert settings(page)["points"][1][1] > SCENES["alignment"].handles.points[1][1]
    canvas.press("Delete")
    expect(page.locator("#table input")).to_have_count(4)


def test_two_runs_can_be_seen_together(page: Page) -> None:
    canvas = page.locator('canvas[data-view="loss"]')
    page.locator("#keep").click()
    before = now(page)
    page.locator("#control-scale").fill("0.1")
    page.locator("#control-scale").blur()
    drawn(page, before + 1)
    both = canvas.screenshot()
    page.locator("#keep").click()
    assert canvas.screenshot() != both


def test_every_field_has_a_name_and_texts_can_be_read(page: Page) -> None:
    for scene in SCENES:
        if scene != "alignment":
            opened(page, scene)
        for field in page.locator("input:visible, select:visible, button:visible").all():
            named = field.evaluate(
                "e => e.labels && e.labels.length > 0 || !!e.getAttribute('aria-label') || !!e.ariaLabel"
                " || !!e.textContent.trim() || !!e.title"
            )
            assert named, field.evaluate("e => e.outerHTML")
    blocks = re.findall(r":root \{(.*?)\}", text_of("style.css"), re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        tones = dict(re.findall(r"--(\w+): (#\w{6})", block))
        for tone in ("ink", "muted", "network", "theory"):
            assert _contrast(tones[tone], tones["ground"]) >= 4.5, (tone, tones)


def _contrast(first: str, second: str) -> float:
    """Return the contrast of two colours after WCAG 2.1."""

    def luminance(colour: str) -> float:
        parts = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_nothing_is_cut_off(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width


def test_a_server_that_comes_back_is_found_again(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHALLOWFLOW_TOKEN", "a token that is kept for this test")
    first = Server()
    port = first.address.split(":")[2].split("/")[0]
    context = browser.new_context()
    page = context.new_page()
    page.goto(first.address)
    drawn(page, 1)
    assert first.stop() in (0, 130)
    expect(page.locator("#status")).to_contain_text("gone", timeout=WAIT)
    page.locator("#control-width").fill("30")
    page.locator("#control-width").blur()
    second = Server("--port", port)
    drawn(page, 2)
    expect(page.locator("#status")).to_have_text("ready", timeout=WAIT)
    context.close()
    second.stop()
