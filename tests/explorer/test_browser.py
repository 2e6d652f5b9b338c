"""The page in a real browser: what a person does, and whether the numbers are Python's."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.explorer.scene import frame_times
from shallowflow.explorer.scenes import SCENES
from shallowflow.explorer.server import text_of

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = DOCS / "explorer.schema.json"

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if CHROMIUM is None:
    pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)", allow_module_level=True)
pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright  # noqa: E402

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
WAIT = 120_000
expect.set_options(timeout=WAIT)
TOKEN = "a token that is kept for these tests"


class Server:
    """`shallowflow explore` in a process of its own, which can be started again at the same address."""

    def __init__(self) -> None:
        self.start("0")

    def start(self, port: str) -> None:
        command = [sys.executable, "-m", "shallowflow.cli", "explore", "--no-browser", "--port", port]
        environment = {**os.environ, "SHALLOWFLOW_TOKEN": TOKEN}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        assert self.address.startswith("http://127.0.0.1:"), self.address

    @property
    def port(self) -> str:
        return self.address.split(":")[2].split("/")[0]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(timeout=120)
        assert self.process.stdout is not None
        assert self.process.stdout.read() == "", "one line with the address, and nothing else"
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


def listened(page: Page) -> list[str]:
    """Return what will be said on the console: errors, and warnings.

    That the server refuses a file (400) is a line that the browser writes by itself.
    """
    said: list[str] = []

    def heard(message: ConsoleMessage) -> None:
        refused = "/open?" in message.location["url"] and "400" in message.text
        if message.type in ("error", "warning") and not refused:
            said.append(message.text)

    page.on("console", heard)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.set_default_timeout(WAIT)
    return said


@pytest.fixture
def page(server: Server, browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, has_touch=True)
    page = context.new_page()
    said = listened(page)
    page.goto(server.address)
    drawn(page, 1)
    yield page
    context.close()
    assert said == []


def drawn(page: Page, number: int) -> None:
    """Wait until the whole answer to that request has been drawn."""
    page.locator(f'body[data-drawn="{number}"]').wait_for(timeout=WAIT)


def now(page: Page) -> int:
    return int(page.locator("body").get_attribute("data-drawn") or 0)


def opened(page: Page, scene: str) -> None:
    before = now(page)
    page.locator(f'#scenes button[data-name="{scene}"]').click()
    drawn(page, before + 1)


def typed(page: Page, control: str, text: str) -> None:
    """Type a value, and wait for its run."""
    before = now(page)
    page.locator(f"#control-{control}").fill(text)
    page.locator(f"#control-{control}").blur()
    drawn(page, before + 1)


def pressed(page: Page, name: str) -> None:
    """Press a button that asks for a run, and wait for it."""
    before = now(page)
    page.get_by_role("button", name=name, exact=True).click()
    drawn(page, before + 1)


def settings(page: Page) -> dict[str, Any]:
    """Return the state that the address holds."""
    found: dict[str, Any] = json.loads(unquote(page.url.partition("#")[2]))
    return found


def exported(page: Page, kind: str) -> bytes:
    page.locator("#keepers").evaluate("element => element.open = true")
    with page.expect_download(timeout=WAIT) as download:
        page.get_by_role("button", name=kind, exact=True).click()
    return Path(download.value.path()).read_bytes()


def words(page: Page) -> str:
    return page.locator("#words").text_content() or ""


def place(page: Page, x: float, y: float) -> tuple[float, float]:
    """Return where numbers of the function's view are on the screen, from what the page draws."""
    box = page.locator('canvas[data-view="function"]').bounding_box()
    assert box is not None
    layers = json.loads(exported(page, "JSON"))["views"][0]["layers"]
    curve = next(one for one in layers if one["label"] == "network")["arrays"]
    low, high = curve["x"]["values"][0], curve["x"]["values"][-1]
    values = [v for one in layers for v in one["arrays"]["y"]["values"]]
    default = SCENES["alignment"].handles[0].points
    values += [y for _, y in (settings(page)["points"] if "#" in page.url else default)]
    bottom, top = min(values), max(values)
    room = 0.06 * (top - bottom)
    left = 62 + (box["width"] - 76) * (x - low) / (high - low)
    down = 10 + (box["height"] - 52) * (1 - (y - bottom + room) / (top - bottom + 2 * room))
    return box["x"] + left, box["y"] + down


def dragged(page: Page, start: tuple[float, float], by: tuple[float, float]) -> None:
    before = page.url
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(start[0] + by[0], start[1] + by[1], steps=4)
    page.mouse.up()
    page.wait_for_url(lambda url: url != before)
    expect(page.locator("#status")).to_have_text("ready", timeout=WAIT)


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
    for clock in ("log time", "event"):
        page.locator("#clock").select_option(clock)
        page.locator("#next").click()
    page.locator("#clock").select_option("time")
    page.locator("#rewind").click()
    page.locator("#speed").select_option("4")
    page.locator("#play").click()
    expect(page.locator("#time")).not_to_contain_text("frame 1 of")
    page.locator("#play").click()


def test_a_dragged_point_gives_what_python_gives(page: Page) -> None:
    points = SCENES["alignment"].handles[0].points
    dragged(page, place(page, *points[1]), (30, -40))
    moved = np.array(settings(page)["points"])
    assert tuple(moved[1]) != points[1]
    data = sf.Dataset(np.column_stack([moved[:, 0], np.ones(3)]), moved[:, 1])
    run = sf.gradient_flow(sf.initialize.balanced(200, 2, init_scale=1e-3, seed=0), data, until=100.0)
    assert f"The loss ends at {run.losses[-1]:.4g}" in words(page)
    # The same number read off the curve, by hovering at its right end.
    box = page.locator('canvas[data-view="loss"]').bounding_box()
    assert box is not None
    page.locator("#scrub").fill("1")
    history = json.loads(exported(page, "JSON"))["views"][2]["layers"][-1]["arrays"]
    x, y = np.array(history["x"]["values"]), np.log(history["y"]["values"])
    level = np.log(json.loads(exported(page, "JSON"))["views"][2]["layers"][0]["arrays"]["y"]["values"][0])
    low, high = min(y.min(), level) - np.log(1.3), max(y.max(), level) + np.log(1.3)
    room = 0.06 * (x[-1] - x[0])
    across = 62 + (box["width"] - 76) * (x[-1] - x[0] + room) / (x[-1] - x[0] + 2 * room)
    down = 10 + (box["height"] - 52) * (1 - (y[-1] - low) / (high - low))
    page.mouse.move(box["x"] + across, box["y"] + down)
    expect(page.locator("#hover")).to_contain_text("loss:")
    shown = (page.locator("#hover").text_content() or "").split(",")[-1]
    assert float(shown) == float(f"{run.losses[-1]:.6g}")


def test_knots_are_dragged_moved_one_by_one_and_freed(page: Page) -> None:
    opened(page, "plateau")
    knots = json.loads(exported(page, "JSON"))["views"][0]["layers"][0]["arrays"]["x"]
    first = next(x for x in knots["values"][: knots["shape"][1]] if -0.9 < x < 0.9)
    box = page.locator('canvas[data-view="function"]').bounding_box()
    assert box is not None
    dragged(page, (place(page, first, 0.0)[0], box["y"] + box["height"] - 42 - 9), (40, 0))
    placed = settings(page)["knots"]
    assert len(placed) == settings(page)["width"] == 8
    assert first not in [x for x, _ in placed]
    page.locator("#scrub").fill("0.5")
    time = float((page.locator("#time").text_content() or "").split()[2])
    pressed(page, "one move")
    state = settings(page)
    np.testing.assert_allclose(state["until"], time, rtol=1e-4)
    assert state["moves"] == 1
    pressed(page, "one move")
    assert settings(page)["moves"] == 2
    points = np.array(state["points"])
    data = sf.Dataset(points[:, :1], points[:, 1])
    net = sf.KnotNetwork([x for x, _ in placed], sf.initialize.he_knots(8, seed=0).outer)
    reached = sf.gradient_flow(net, data, until=state["until"]).final
    assert isinstance(reached, sf.KnotNetwork)
    moved = sf.active_neuron_least_squares(reached, data, max_iterations=2)
    assert f"to {moved.losses[-1]:.4g}." in words(page)
    pressed(page, "escape")
    freed = sf.active_neuron_least_squares(reached, data)
    assert f"to {freed.losses[-1]:.4g}." in words(page)
    assert f"{len(freed.losses) - 1} moves" in words(page)
    page.locator("#play").click()
    page.locator("#next").click()
    expect(page.locator("#status")).to_contain_text(re.compile(r"least squares|move \d+: knot"))
    page.locator("#undo").click()
    expect(page.locator("#control-moves")).to_have_value("2")


def test_a_target_is_drawn_by_hand(page: Page) -> None:
    opened(page, "two-timescales")
    box = page.locator('canvas[data-view="function"]').bounding_box()
    assert box is not None
    before = now(page)
    page.locator("#draw").click()
    left, width, middle = box["x"] + 62, box["width"] - 76, box["y"] + box["height"] / 2
    page.mouse.move(left + 2, middle + 60)
    page.mouse.down()
    page.mouse.move(left + 0.5 * width - 2, middle + 60, steps=6)
    page.mouse.move(left + 0.5 * width + 2, middle - 60, steps=2)
    page.mouse.move(left + width - 2, middle - 60, steps=6)
    page.mouse.up()
    drawn(page, before + 1)
    (x0, low), (x1, high) = settings(page)["points"]
    assert x0 == 0.0
    assert abs(x1 - 0.5) < 0.05
    assert high > low
    expect(page.locator("#draw")).to_have_attribute("aria-pressed", "false")


def test_the_address_holds_everything(page: Page) -> None:
    opened(page, "plateau")
    typed(page, "width", "5")
    page.locator("#keep").click()
    typed(page, "seed", "3")
    page.locator("#clock").select_option("log time")
    page.locator("#scrub").fill("0.75")
    page.wait_for_url(re.compile("log%20time"))
    other = page.context.new_page()
    said = listened(other)
    other.goto(page.url)
    drawn(other, 2)
    assert settings(other) == settings(page)
    assert words(other) == words(page)
    assert other.locator("#control-width").input_value() == "5"
    expect(other.locator("#keep")).to_have_attribute("aria-pressed", "true")
    assert other.locator("#time").text_content() == page.locator("#time").text_content()
    views = [each.locator('canvas[data-view="loss"]').screenshot() for each in (page, other)]
    assert views[0] == views[1]
    assert said == []


def test_undo_redo_reset_and_a_new_seed(page: Page) -> None:
    for text in ("150", "120"):
        typed(page, "width", text)
    page.locator("#undo").click()
    expect(page.locator("#control-width")).to_have_value("150")
    page.locator("#redo").click()
    expect(page.locator("#control-width")).to_have_value("120")
    expect(page.locator("#status")).to_have_text("ready", timeout=WAIT)
    pressed(page, "new seed")
    assert settings(page)["seed"] == int(page.locator("#control-seed").input_value())
    page.locator("#reset").click()
    expect(page.locator("#control-width")).to_have_value("200")
    expect(page.locator("#control-seed")).to_have_value("0")


def test_rewinding_repeats_exactly(page: Page) -> None:
    first = exported(page, "CSV")
    page.locator("#scrub").fill("0.7")
    page.locator("#rewind").click()
    assert exported(page, "CSV") == first
    before = now(page)
    page.locator("#reset").click()
    drawn(page, before + 1)
    assert exported(page, "CSV") == first


def test_exports_agree_with_python(page: Page, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(exported(page, "CSV").decode())))
    net = sf.initialize.balanced(200, 2, init_scale=1e-3, seed=0)
    run = sf.gradient_flow(net, sf.data.GENERATORS["three_points"](), until=100.0)
    np.testing.assert_allclose(float(rows[-1]["loss: loss"]), run.losses[-1], rtol=1e-6)
    said = json.loads(exported(page, "JSON"))
    check_schema(said, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert len(said["times"]) == len(rows)
    assert said["views"][2]["layers"][-1]["arrays"]["y"]["values"][-1] == float(rows[-1]["loss: loss"])
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(exported(page, "Python").decode(), {})
    np.testing.assert_allclose(float(printed.getvalue()), run.losses[-1], rtol=1e-12)
    file = tmp_path / "run.trajectory"
    file.write_bytes(exported(page, "trajectory"))
    kept = sf.Trajectory.load(file)
    np.testing.assert_allclose(kept.losses[-1], run.losses[-1], rtol=1e-6)
    svg = ElementTree.fromstring(exported(page, "SVG"))
    assert len(list(svg)) == len(said["views"])
    picture = Image.open(io.BytesIO(exported(page, "PNG")))
    assert len(np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0)) > 20
    # The saved trajectory is opened again, and says the same.
    page.locator("#open").set_input_files(file)
    expect(page.locator("#story")).to_contain_text("A run from a file")
    expect(page.locator("#words")).to_contain_text(f"to {run.losses[-1]:.4g}")
    page.locator("#scrub").fill("1")
    expect(page.locator("#time")).to_contain_text("frame 120 of 120")
    again = json.loads(exported(page, "JSON"))
    assert again["times"] == said["times"]
    page.locator("#undo").click()
    expect(page.locator("#story")).to_have_text(SCENES["alignment"].story)
    assert settings(page)["scene"] == "alignment"


def check_schema(value: Any, schema: dict[str, Any], where: str = "$") -> None:
    """Check a value by the part of JSON Schema that our file uses."""
    kinds: dict[str, Any] = {
        "object": dict,
        "array": list,
        "string": str,
        "number": (int, float),
        "integer": int,
    }
    kinds |= {"boolean": bool}
    if "anyOf" in schema:
        assert any(isinstance(value, kinds[one["type"]]) for one in schema["anyOf"]), where
        return
    assert isinstance(value, kinds[schema["type"]]), (where, schema["type"], type(value))
    assert value == schema.get("const", value), where
    assert value in schema.get("enum", [value]), where
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        assert name in value, (where, name)
    for name, one in value.items() if schema["type"] == "object" else ():
        inner = known.get(name, schema.get("additionalProperties", True))
        assert inner is not False, (where, name)
        if inner is not True:
            check_schema(one, inner, f"{where}.{name}")
    if schema["type"] == "array" and "items" in schema:
        for k, one in enumerate(value):
            check_schema(one, schema["items"], f"{where}[{k}]")


def test_a_table_is_opened_or_refused(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "my.csv"
    file.write_text("x;y\n0,5;1,5\n1;2\n2;0\n")
    before = now(page)
    page.locator("#open").set_input_files(file)
    drawn(page, before + 1)
    assert settings(page)["points"] == [[0.5, 1.5], [1, 2], [2, 0]]
    file.write_text("no numbers here\n")
    page.locator("#open").set_input_files(file)
    expect(page.locator("#status")).to_have_class("bad")


def test_the_standalone_page_plays_without_a_server(page: Page, tmp_path: Path, browser: Browser) -> None:
    file = tmp_path / "run.html"
    file.write_bytes(exported(page, "HTML"))
    context = browser.new_context(offline=True)
    alone = context.new_page()
    said = listened(alone)
    alone.goto(file.as_uri())
    drawn(alone, 1)
    assert words(alone) == words(page)
    alone.locator("#scrub").fill("1")
    assert "frame 120 of 120" in (alone.locator("#time").text_content() or "")
    assert alone.locator("#control-width").is_disabled()
    assert exported(alone, "CSV") == exported(page, "CSV")
    context.close()
    assert said == []


@pytest.mark.parametrize("scene", SCENES)
def test_the_recorded_runs_of_the_docs_play(browser: Browser, scene: str) -> None:
    context = browser.new_context(offline=True)
    alone = context.new_page()
    said = listened(alone)
    alone.goto((DOCS / "standalone" / "explorer" / f"{scene}.html").as_uri())
    drawn(alone, 1)
    expect(alone.locator("#story")).to_have_text(SCENES[scene].story)
    alone.locator("#scrub").fill("1")
    assert re.search(r"frame (\d+) of \1", alone.locator("#time").text_content() or "")
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


def test_keys_choose_move_add_and_delete_points_and_lead_time(page: Page) -> None:
    page.locator("body").press("ArrowRight")
    expect(page.locator("#time")).to_contain_text("frame 2 of")
    page.locator("body").press("Home")
    expect(page.locator("#time")).to_contain_text("frame 1 of")
    page.locator("#points").evaluate("element => element.open = true")
    canvas = page.locator('canvas[data-view="function"]')
    canvas.press(".")
    canvas.press(".")
    before = now(page)
    canvas.press("ArrowUp")
    drawn(page, before + 1)
    points = SCENES["alignment"].handles[0].points
    assert settings(page)["points"][1][1] > points[1][1]
    assert settings(page)["points"][0] == list(points[0])
    canvas.press("Delete")
    expect(page.locator("#table input")).to_have_count(4)
    canvas.press("Enter")
    expect(page.locator("#table input")).to_have_count(6)
    page.locator("body").press("Control+z")
    expect(page.locator("#table input")).to_have_count(4)


def test_fingers_drag_and_delete(page: Page) -> None:
    points = SCENES["alignment"].handles[0].points
    x, y = place(page, *points[2])
    touch = page.context.new_cdp_session(page)

    def send(kind: str, *at: tuple[float, float]) -> None:
        touched = [{"x": a, "y": b} for a, b in at]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touched})

    send("touchStart", (x, y))
    send("touchMove", (x - 15, y + 25))
    send("touchMove", (x - 30, y + 40))
    send("touchEnd")
    page.wait_for_url(re.compile("#"))
    expect(page.locator("#status")).to_have_text("ready", timeout=WAIT)
    moved = settings(page)["points"]
    assert moved[2][0] < points[2][0]
    assert moved[2][1] < points[2][1]
    # The one that was touched last is chosen: the button deletes it.
    page.locator("#remove").tap()
    expect(page.locator("#table input")).to_have_count(4)
    assert settings(page)["points"] == [list(point) for point in points[:2]]
    page.locator("#add").tap()
    expect(page.locator("#table input")).to_have_count(6)


def test_a_neuron_that_is_clicked_says_all_its_digits(page: Page) -> None:
    page.locator("#scrub").fill("1")
    arrays = json.loads(exported(page, "JSON"))["views"][1]["layers"][-1]["arrays"]
    angle = arrays["angle"]["values"][-200:]
    radius = arrays["radius"]["values"][-200:]
    j = int(np.argmax(radius))
    box = page.locator('canvas[data-view="neurons"]').bounding_box()
    assert box is not None
    reach = 0.47 * min(box["width"], box["height"]) * (0.12 + 0.88 * radius[j])
    x = box["x"] + box["width"] / 2 + reach * np.cos(angle[j])
    y = box["y"] + box["height"] / 2 - reach * np.sin(angle[j])
    page.mouse.move(x, y)
    expect(page.locator("#hover")).to_contain_text("neuron")
    page.mouse.click(x, y)
    expect(page.locator("#status")).to_contain_text("inner =", timeout=WAIT)
    said = page.locator("#status").text_content() or ""
    number = int(said.split(":")[0].split()[1]) - 1
    net = sf.initialize.balanced(200, 2, init_scale=1e-3, seed=0)
    record = sf.Record.at(frame_times(100.0))
    run = sf.gradient_flow(net, sf.data.GENERATORS["three_points"](), until=100.0, record=record)
    final = run.final
    assert isinstance(final, sf.ReLUNetwork)
    numbers = [float(text) for text in re.findall(r"-?\d[\d.]*(?:e-?\d+)?", said.split("inner")[1])]
    np.testing.assert_array_equal(numbers, [*final.inner[number], final.outer[number]])


def test_two_runs_can_be_seen_together(page: Page) -> None:
    canvas = page.locator('canvas[data-view="loss"]')
    page.locator("#keep").click()
    typed(page, "scale", "0.1")
    both = canvas.screenshot()
    page.locator("#keep").click()
    assert canvas.screenshot() != both


def test_two_browsers_at_once(page: Page, browser: Browser, server: Server) -> None:
    second = browser.browser_type.launch(executable_path=CHROMIUM, args=list(FLAGS))
    other = second.new_page()
    said = listened(other)
    other.goto(server.address)
    drawn(other, 1)
    typed(page, "width", "150")
    typed(other, "width", "90")
    assert settings(page)["width"] == 150
    assert settings(other)["width"] == 90
    assert words(page) != words(other)
    second.close()
    assert said == []


def test_every_field_has_a_name_and_nothing_is_cut_off(page: Page) -> None:
    for scene in SCENES:
        if scene != "alignment":
            opened(page, scene)
        for width in (390, 1920, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, scene
            outside = page.evaluate(
                "() => [...document.querySelectorAll('button, input:not(.away), select, canvas, p')]"
                ".filter(e => { const r = e.getBoundingClientRect();"
                " return r.width && (r.left < -1 || r.right > innerWidth + 1) }).map(e => e.outerHTML)"
            )
            assert outside == [], (scene, width)
        unnamed = page.evaluate(
            "() => [...document.querySelectorAll('input, select, button, canvas')].filter(e => !("
            "e.labels && e.labels.length > 0 || e.getAttribute('aria-label') || e.ariaLabel"
            " || e.textContent.trim() || e.title)).map(e => e.outerHTML)"
        )
        assert unnamed == []


def test_texts_can_be_read_and_colours_differ(page: Page) -> None:
    blocks = re.findall(r":root.*? \{(.*?)\}", text_of("style.css"), re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        tones = dict(re.findall(r"--(\w+): (#\w{6})", block))
        for tone in ("ink", "muted", "network", "theory", "data"):
            for ground in ("ground", "panel"):
                assert _contrast(tones[tone], tones[ground]) >= 4.5, (tone, tones)
        assert _contrast(tones["kept"], tones["ground"]) >= 3.0
        # Told apart by the colour-blind: in lightness or hue, for each of the three kinds.
        for kind in BLIND:
            assert _apart(tones["network"], tones["theory"], kind) > 25.0, (kind, tones)
    page.locator("#theme").click()
    theme = page.evaluate("document.documentElement.dataset.theme")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (theme, ground) == ("dark", "rgb(20, 24, 29)")


def _linear(colour: str) -> Floats:
    parts = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def _contrast(first: str, second: str) -> float:
    """Return the contrast of two colours after WCAG 2.1."""
    lights = sorted(float(_linear(one) @ [0.2126, 0.7152, 0.0722]) for one in (first, second))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


BLIND = {
    "protanopia": [
        [0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]
    ],
}  # fmt: skip
"""Machado, Oliveira, Fernandes (2009), severity 1."""


def _apart(first: str, second: str, kind: str) -> float:
    """Return the distance of two colours in CIE L*a*b*, as seen with a colour blindness."""

    def lab(colour: str) -> Floats:
        seen = np.clip(np.array(BLIND[kind]) @ _linear(colour), 0.0, 1.0)
        to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
        x, y, z = np.cbrt(np.array(to_xyz) @ seen / [0.9505, 1.0, 1.089])
        return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])

    return float(np.linalg.norm(lab(first) - lab(second)))


def test_a_server_that_comes_back_is_found_again(browser: Browser, server: Server) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(WAIT)
    page.goto(server.address)
    drawn(page, 1)
    port, children = server.port, _children(server.process.pid)
    assert len(children) >= 2
    assert server.stop() in (0, 130)
    for child in children:
        assert _gone(child), "Ctrl-C ends everything"
    expect(page.locator("#status")).to_contain_text("gone", timeout=WAIT)
    page.locator("#control-width").fill("30")
    page.locator("#control-width").blur()
    server.start(port)
    drawn(page, 2)
    expect(page.locator("#status")).to_have_text("ready", timeout=WAIT)
    context.close()


def _children(parent: int) -> list[int]:
    """Return the processes of a process, by /proc."""
    found = Path(f"/proc/{parent}/task/{parent}/children")
    return [int(text) for text in found.read_text().split()] if found.exists() else [0, 0]


def _gone(process: int) -> bool:
    for _ in range(600):
        if process == 0 or not Path(f"/proc/{process}").exists():
            return True
        time.sleep(0.1)
    return False
