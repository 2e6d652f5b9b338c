"""The server: who is let in, what is answered, what is refused. No browser."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from shallowflow import ReLUNetwork, Trajectory
from shallowflow.commands.networks import explore
from shallowflow.errors import InvalidInputError
from shallowflow.explorer.scene import Show, Watch, packed
from shallowflow.explorer.scenes import SCENES
from shallowflow.explorer.server import COOKIE, MODULES, MOST_BYTES, MOST_FILE, Explorer, served, standalone
from shallowflow.explorer.workers import SLOTS, Workers
from tests.explorer.scenes.test_scenes import SMALL, unpacked

HOST = "127.0.0.1:8000"
ORIGIN = f"http://{HOST}"


@pytest.fixture(scope="module")
def explorer() -> Iterator[Explorer]:
    workers = Workers()
    yield Explorer(workers, 8000)
    workers.close()


def client(explorer: Explorer, *, token: str | None = "right", origin: str | None = ORIGIN) -> TestClient:
    headers = {"host": HOST} | ({"origin": origin} if origin else {})
    made = TestClient(explorer.application, base_url=ORIGIN, headers=headers, follow_redirects=False)
    if token:
        made.cookies.set(COOKIE, explorer.token if token == "right" else token)
    return made


def test_the_token_becomes_a_cookie_that_no_script_can_read(explorer: Explorer) -> None:
    answer = client(explorer, token=None).get(f"/?token={explorer.token}")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


def test_the_page_is_given_to_its_own_browser_only(explorer: Explorer) -> None:
    page = client(explorer).get("/")
    assert page.status_code == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "explorer/main" in page.text
    assert explorer.token not in page.text
    assert client(explorer, token=None).get("/").status_code == 403
    assert client(explorer, token="wrong").get("/").status_code == 403
    assert client(explorer, token=None).get("/?token=wrong").status_code == 403
    assert client(explorer).get("/", headers={"host": "evil.example"}).status_code == 421
    assert client(explorer, origin="http://evil.example").get("/").status_code == 403


def test_only_files_of_the_page_are_given_out(explorer: Explorer) -> None:
    ours = client(explorer)
    for name in (*MODULES, "style.css"):
        assert ours.get(f"/page/{name}").status_code == 200
    for name in ("index.html", "..%2Fserver.py", "%2e%2e/server.py", "x"):
        assert ours.get(f"/page/{name}").status_code == 404
    assert client(explorer, token=None).get("/page/main.js").status_code == 403


@pytest.mark.parametrize(
    ("token", "origin"),
    [(None, ORIGIN), ("wrong", ORIGIN), ("right", None), ("right", "http://evil.example")],
)
def test_strangers_get_no_line(explorer: Explorer, token: str | None, origin: str | None) -> None:
    with (
        pytest.raises(WebSocketDisconnect) as refused,
        client(explorer, token=token, origin=origin).websocket_connect("/run", headers={"host": HOST}),
    ):
        pass
    assert refused.value.code == 1008


def test_a_run_is_answered_and_bad_messages_are_refused(explorer: Explorer) -> None:
    rng = random.Random(0)
    with client(explorer).websocket_connect("/run", headers={"host": HOST}) as line:
        for _ in range(5_000):
            line.send_text(_malformed(rng))
            assert "error" in json.loads(line.receive_text())
        line.send_text(json.dumps({"n": 5, "scene": "rates", "state": SMALL["rates"]}))
        header, _ = unpacked(line.receive_bytes())
        assert (header["n"], header["scene"], header["state"]["size"]) == (5, "rates", 3)


def _malformed(rng: random.Random) -> str:
    """Return a message that is no request, in one of many ways."""
    odd: list[Any] = [None, -1, 0, 1.5, "x", [], {}, True, 2**60, "alignment\0", "../free", ["free"]]
    request = {"n": 1, "scene": "free", "state": {}}
    kind = rng.randrange(4)
    if kind == 0:
        text = json.dumps(request)
        return text[: rng.randrange(len(text))] + rng.choice(["", "\0", "é", "["])
    if kind == 1:
        return json.dumps({**request, "n": rng.choice(odd[:10])})
    if kind == 2:
        return json.dumps({**request, "scene": rng.choice(odd)})
    wrong: list[Any] = [None, "x", {}, True, 1e300]
    name = rng.choice(["width", "points", "odd", "scale"])
    return json.dumps({**request, "state": {name: rng.choice(wrong)}})


def test_only_so_many_pages_at_once(explorer: Explorer) -> None:
    taken = [explorer.workers.enter() for _ in range(SLOTS)]
    try:
        with client(explorer).websocket_connect("/run", headers={"host": HOST}) as line:
            assert "busy" in json.loads(line.receive_text())["error"]
    finally:
        for slot in taken:
            assert slot is not None
            explorer.workers.leave(slot)


def test_a_preview_comes_before_a_long_run_and_is_all_while_something_is_moved(explorer: Explorer) -> None:
    state = {"width": 600, "until": 5.0}
    with client(explorer).websocket_connect("/run", headers={"host": HOST}) as line:
        line.send_text(json.dumps({"n": 1, "scene": "alignment", "state": state}))
        stages = [unpacked(line.receive_bytes())[0]["stage"] for _ in range(2)]
        assert stages == ["preview", "whole"]
        line.send_text(json.dumps({"n": 2, "scene": "alignment", "state": state, "going": True}))
        header, _ = unpacked(line.receive_bytes())
        assert (header["n"], header["stage"]) == (2, "preview")
        line.send_text(json.dumps({"n": 3, "scene": "rates", "state": {}, "going": True}))
        header, _ = unpacked(line.receive_bytes())
        assert (header["n"], header["stage"]) == (3, "whole")


def test_of_many_requests_the_latest_is_answered(explorer: Explorer) -> None:
    with client(explorer).websocket_connect("/run", headers={"host": HOST}) as line:
        for n in range(1, 30):
            state = {"width": 900, "until": 50.0, "seed": n}
            line.send_text(json.dumps({"n": n, "scene": "alignment", "state": state, "going": n % 2 == 0}))
        line.send_text(json.dumps({"n": 30, "scene": "rates", "state": {}}))
        numbers: list[int] = []
        while not numbers or numbers[-1] != 30:
            numbers.append(unpacked(line.receive_bytes())[0]["n"])
        assert numbers == sorted(numbers)
        assert len(numbers) < 15


def test_exports_come_from_the_same_state(explorer: Explorer, tmp_path: Any) -> None:
    ours, body = client(explorer), json.dumps({"n": 1, "scene": "plateau", "state": SMALL["plateau"]})
    file = tmp_path / "run.trajectory"
    file.write_bytes(ours.post("/export/trajectory", content=body).content)
    assert Trajectory.load(file).outcome.ok
    none = ours.post("/export/trajectory", content=json.dumps({"n": 1, "scene": "rates", "state": {}}))
    assert none.status_code == 400
    assert ours.post("/export/trajectory", content="{").status_code == 400
    assert ours.post("/export/trajectory", content=b" " * (MOST_BYTES + 1)).status_code == 400
    assert ours.post("/export/passwd", content=body).status_code == 404
    assert client(explorer, origin=None).post("/export/trajectory", content=body).status_code == 403


def test_a_neuron_says_all_its_digits(explorer: Explorer) -> None:
    ours, state = client(explorer), SMALL["alignment"]
    show = SCENES["alignment"].run(SCENES["alignment"].state(state), Watch())
    assert show.trajectory is not None
    moment = float(show.times[70])
    asked = {"n": 1, "scene": "alignment", "state": state, "time": moment, "neuron": 7}
    found = ours.post("/export/neuron", content=json.dumps(asked)).json()
    network = show.trajectory(moment)
    assert isinstance(network, ReLUNetwork)
    assert found == {"inner": network.inner[7].tolist(), "outer": float(network.outer[7])}
    for wrong in ({"neuron": 20}, {"neuron": None}, {"time": "x"}, {"neuron": True}):
        assert ours.post("/export/neuron", content=json.dumps(asked | wrong)).status_code == 400


def test_a_run_becomes_a_page_of_its_own(explorer: Explorer) -> None:
    show = SCENES["rates"].run(SCENES["rates"].state({}), Watch())
    page = client(explorer).post("/export/standalone", content=packed(show, {"n": 1, "scene": "rates"}))
    assert "data:text/javascript" in page.text
    assert "default-src 'none'" in page.text
    assert "http://" not in page.text.replace("http://www.w3.org/2000/svg", "")
    for wrong in (b"", b"\xff\xff\xff\xff", b"\2\0\0\0{}", packed(show, {"scene": "../x"})):
        assert client(explorer).post("/export/standalone", content=wrong).status_code == 400
    strange = client(explorer, origin="http://evil.example")
    assert strange.post("/export/standalone", content=b"x").status_code == 403


def test_files_are_opened_or_refused(explorer: Explorer, tmp_path: Any) -> None:
    ours = client(explorer)
    table = ours.post("/open?name=my.csv", content=b"x;y\n0,5;1,5\n1;2\n")
    assert table.json()["points"] == [[0.5, 1.5], [1.0, 2.0]]
    for wrong in (b"", b"x,y\n1,nan?\n", b"\x80\x81,\n", b"x,y\n" + b"1,2\n" * 300):
        assert "error" in ours.post("/open?name=my.csv", content=wrong).json()
    show = SCENES["alignment"].run(SCENES["alignment"].state(SMALL["alignment"]), Watch())
    assert show.trajectory is not None
    show.trajectory.save(tmp_path / "run")
    kept = (tmp_path / "run").read_bytes()
    header, _ = unpacked(ours.post("/open?name=run.trajectory", content=kept).content)
    assert (header["scene"], header["stage"]) == ("saved", "whole")
    for wrong in (b"", b"x", kept[:-50], kept[: len(kept) // 2] + b"\0" * 99):
        assert "error" in ours.post("/open?name=run.trajectory", content=wrong).json()
    assert ours.post("/open?name=run.trajectory", content=b" " * (MOST_FILE + 1)).status_code == 400
    assert client(explorer, token=None).post("/open?name=a.csv", content=b"x").status_code == 403
    assert client(explorer, origin=None).post("/open?name=a.csv", content=b"x").status_code == 403
    assert ours.post("/open?name=a.csv", content=b"", headers={"host": "evil.example"}).status_code == 421


def test_data_cannot_end_the_script_of_a_page() -> None:
    show = Show(np.zeros(1), (), ("</script><b>",), "</script><b>")
    page = standalone(packed(show, {"scene": "rates", "state": {"x": "</script><b>"}}))
    assert "</script><b>" not in page
    assert "</script><b>" not in served("nonce", "free", {"points": "</script><b>"})


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        made = CliRunner().invoke(explore, ["--no-browser", "--port", str(taken.getsockname()[1])])
    assert isinstance(made.exception, InvalidInputError)
    assert "--port" in str(made.exception)


def test_processes_end_with_a_server_that_was_killed(tmp_path: Any) -> None:
    script = (
        "import os, signal, sys\n"
        "from shallowflow.explorer.workers import Workers\n"
        "if __name__ == '__main__':\n"
        "    workers = Workers()\n"
        "    print(workers._pool.submit(os.getpid).result(), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    file = tmp_path / "server.py"
    file.write_text(script)
    made = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=240)
    process = Path(f"/proc/{int(made.stdout)}")
    if not Path("/proc/self").exists():
        pytest.skip("needs /proc")
    for _ in range(200):
        if not process.exists():
            break
        time.sleep(0.1)
    assert not process.exists()
