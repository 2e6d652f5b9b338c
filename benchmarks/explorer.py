"""Latency and frame times of the explorer in a real browser: median and 95 % (wall time, milliseconds).

A change is a new seed typed into its field; it ends when the answer to that very request has been drawn.
Frame times are those of `requestAnimationFrame` while a run plays.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time

import numpy as np

STATES = {
    "3 points, 200 neurons": {},
    "3 points, 2,000 neurons": {"width": "2000"},
}
CHANGES, SECONDS = 20, 4.0
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


def main() -> None:
    """Print a table."""
    from playwright.sync_api import sync_playwright

    command = [sys.executable, "-m", "shallowflow.cli", "explore", "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = server.stdout.readline().strip()
    print(f"{'problem':<26}{'drawn after, ms':>22}{'frame, ms':>20}")
    try:
        with sync_playwright() as engine:
            browser = engine.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
            )
            context = browser.new_context(viewport={"width": 1280, "height": 900}, bypass_csp=True)
            page = context.new_page()
            page.goto(address)
            page.locator('body[data-drawn="1"]').wait_for()
            for name, state in STATES.items():
                for control, text in state.items():
                    _changed(page, control, text)
                waits = [_changed(page, "seed", str(k)) for k in range(1, CHANGES + 1)]
                page.locator("#play").click()
                frames = page.evaluate(FRAMES, SECONDS)
                page.locator("#play").click()
                print(f"{name:<26}{_text(waits):>22}{_text(frames):>20}")
            browser.close()
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()


def _changed(page: object, control: str, text: str) -> float:
    """Type a value, and return the milliseconds until its run is drawn."""
    number = int(page.locator("body").get_attribute("data-drawn"))  # type: ignore[attr-defined]
    field = page.locator(f"#control-{control}")  # type: ignore[attr-defined]
    field.fill(text)
    start = time.perf_counter()
    field.blur()
    page.locator(f'body[data-drawn="{number + 1}"]').wait_for()  # type: ignore[attr-defined]
    return 1e3 * (time.perf_counter() - start)


def _text(values: list[float]) -> str:
    return f"{np.median(values):.0f} (95 %: {np.quantile(values, 0.95):.0f})"


if __name__ == "__main__":
    main()
