"""Latencies and frame times of the explorer in a real browser: median and 95 % (wall time, milliseconds).

Everything is timed inside the page. A change is a new seed, typed: "seen" ends with the first picture of the
new state (a preview, a part, or the whole), "whole" when the exact run has been drawn. "moved" is a slider
that is still being moved: until its picture is there. Each ends after the animation frame in which the
picture was drawn. Frames are those of `requestAnimationFrame` while a run plays. Wall times: the load of the
machine is printed with them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from typing import Any
from urllib.parse import quote

import numpy as np

FORTY = [[round(float(x), 3), round(float(np.sin(3 * x)), 3)] for x in np.linspace(-1, 1, 40)]
STATES: dict[str, dict[str, Any]] = {
    "alignment, 3 × 200": {"scene": "alignment"},
    "alignment, 3 × 2,000": {"scene": "alignment", "width": 2000},
    "alignment, 40 × 200": {"scene": "alignment", "points": FORTY},
    "alignment, 40 × 2,000": {"scene": "alignment", "points": FORTY, "width": 2000},
    "plateau, 25 × 8": {"scene": "plateau"},
    "jumps, 8 × 6": {"scene": "jumps"},
    "rates, 100 in 4 groups": {"scene": "rates"},
    "two timescales, 12": {"scene": "two-timescales"},
    "two timescales, SGD": {"scene": "two-timescales", "method": "SGD"},
    "free, 12 × 50": {"scene": "free"},
    "free, 12 × 2,000": {"scene": "free", "width": 2000},
}
CHANGES, SECONDS = 20, 3.0
CHANGED = """async ([value, moving]) => {
  const { dataset } = document.body, field = document.getElementById("control-seed");
  const number = String(Number(dataset.seen) + 1), began = performance.now();
  const until = (name) => new Promise((resolve) => {
    const look = () => {
      if (dataset[name] !== number) return;
      watch.disconnect();
      requestAnimationFrame(() => resolve(performance.now() - began));
    };
    const watch = new MutationObserver(look);
    watch.observe(document.body, { attributes: true });
    look();
  });
  if (moving) {
    const range = document.querySelector("#controls input[type=range]");
    range.value = 0.5 + 0.01 * value;
    range.dispatchEvent(new Event("input"));
    return [await until("seen"), 0];
  }
  const both = Promise.all([until("seen"), until("drawn")]);
  field.value = value;
  field.dispatchEvent(new Event("change"));
  return both;
}"""
FRAMES = """async (seconds) => {
  const found = [];
  let before = performance.now();
  const end = before + 1000 * seconds;
  while (before < end) {
    const now = await new Promise(requestAnimationFrame);
    found.push(now - before);
    before = now;
  }
  return found.slice(1);
}"""


def main(changes: int = CHANGES) -> None:
    """Print a table."""
    from playwright.sync_api import sync_playwright

    command = [sys.executable, "-m", "shallowflow.cli", "explore", "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = server.stdout.readline().strip()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; median (95 %), milliseconds")
    print(f"{'points × neurons':<24}{'seen':>14}{'whole':>16}{'moved':>14}{'frame':>12}")
    try:
        with sync_playwright() as engine:
            browser = engine.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
            )
            context = browser.new_context(viewport={"width": 1280, "height": 900}, bypass_csp=True)
            page = context.new_page()
            page.set_default_timeout(120_000)
            page.goto(address)
            for name, state in STATES.items():
                page.goto("about:blank")
                page.goto(f"{address.partition('?')[0]}#{quote(json.dumps(state))}")
                page.locator("body[data-drawn]").wait_for()
                pairs = [page.evaluate(CHANGED, [k, False]) for k in range(1, changes + 1)]
                moved = [page.evaluate(CHANGED, [k, True])[0] for k in range(1, changes + 1)]
                page.locator("#play").click()
                frames = page.evaluate(FRAMES, SECONDS)
                seen, whole = np.array(pairs).T
                columns = (_text(seen), _text(whole), _text(moved), _text(frames))
                print("{:<24}{:>14}{:>16}{:>14}{:>12}".format(name, *columns), flush=True)
            browser.close()
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()


def _text(values: Any) -> str:
    return f"{np.median(values):.0f} ({np.quantile(values, 0.95):.0f})"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
