"""The server of the page: on this machine only, for whoever has the token; and the page as it gives it out.

The token comes once in the address and becomes a cookie. Host and Origin must be this server's own: no other
page in the same browser can talk to it. Messages: text up ({n, scene, state, going}), binary answers down
(`scene.packed`: perhaps a preview or parts, then the whole) or text ({n, error}); of several requests the
latest wins. While a slider or a point is still being moved (`going`) a preview is all that is made.

The page is also one file that plays without a server. Its modules import each other by bare names
("explorer/state"). An import map says where they are: beside the page, or, in the file, in the file itself.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import secrets
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from shallowflow.data.table import PairOptions, read_pairs
from shallowflow.errors import InvalidInputError, ShallowflowError
from shallowflow.explorer.scene import Scene
from shallowflow.explorer.scenes import SAVED, SCENES
from shallowflow.explorer.workers import Job, Workers

COOKIE = "shallowflow"
TOKEN = "SHALLOWFLOW_TOKEN"
"""Environment variable that keeps the token, so that pages find a server that was started again."""
MOST_BYTES = 2**20
"""Of a message that asks for a run."""
MOST_FILE = 2**25
"""Of a file that is opened, or of a run that becomes a page."""
BUSY = "the server is busy: close another page"


class Explorer:
    """The application: its token, its address, its processes."""

    def __init__(
        self, workers: Workers, port: int, scene: str = "alignment", state: dict[str, Any] | None = None
    ) -> None:
        self.workers = workers
        self.token = os.environ.get(TOKEN, "") or secrets.token_urlsafe(24)
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self.start = scene, state or {}
        self.application = Starlette(
            routes=[
                Route("/", self._page),
                Route("/page/{name}", self._file),
                Route("/export/standalone", self._standalone, methods=["POST"]),
                Route("/export/{what}", self._export, methods=["POST"]),
                Route("/open", self._open, methods=["POST"]),
                WebSocketRoute("/run", self._socket),
            ]
        )

    # --- Who may speak to us.

    def _known(self, headers: Any, cookies: Any, *, origin: bool) -> bool:
        """Whether host, origin and token are right."""
        host, came = headers.get("host", ""), headers.get("origin")
        if host not in self.hosts or (came is None and origin):
            return False
        if came is not None and came != f"http://{host}":
            return False
        return secrets.compare_digest(cookies.get(COOKIE, ""), self.token)

    def _guarded(self, request: Request, *, origin: bool = False) -> Response | None:
        """Return the refusal of a request that is not from our own page."""
        if request.headers.get("host", "") not in self.hosts:
            return PlainTextResponse("this server answers to 127.0.0.1 only", 421)
        if not self._known(request.headers, request.cookies, origin=origin):
            return PlainTextResponse("open the address that `shallowflow explore` printed", 403)
        return None

    # --- Pages and files.

    async def _page(self, request: Request) -> Response:
        given = request.query_params.get("token")
        if given is not None and request.headers.get("host", "") in self.hosts:
            if not secrets.compare_digest(given, self.token):
                return PlainTextResponse("the token is wrong", 403)
            answer = RedirectResponse("/", 303)
            answer.set_cookie(COOKIE, self.token, httponly=True, samesite="strict")
            return answer
        if (refused := self._guarded(request)) is not None:
            return refused
        nonce = secrets.token_urlsafe(16)
        page = HTMLResponse(served(nonce, *self.start))
        page.headers["Content-Security-Policy"] = (
            f"default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self'; "
            "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'"
        )
        page.headers["X-Content-Type-Options"] = "nosniff"
        page.headers["Cache-Control"] = "no-store"
        return page

    async def _file(self, request: Request) -> Response:
        if (refused := self._guarded(request)) is not None:
            return refused
        name = request.path_params["name"]
        if name not in (*MODULES, "style.css"):
            return PlainTextResponse("no such file", 404)
        return Response(text_of(name), media_type=TYPES[name[name.rindex(".") :]])

    async def _standalone(self, request: Request) -> Response:
        """Answer with the page that plays the run it was sent, as the page has it."""
        if (refused := self._guarded(request, origin=True)) is not None:
            return refused
        try:
            message = await _limited(request, MOST_FILE)
            return HTMLResponse(standalone(message))
        except (ShallowflowError, ValueError) as error:
            return JSONResponse({"error": str(error)[:500]}, 400)

    async def _export(self, request: Request) -> Response:
        """Answer with the trajectory of a state, or with the exact weights of one of its neurons."""
        what = request.path_params["what"]
        if (refused := self._guarded(request, origin=True)) is not None:
            return refused
        if what not in ("trajectory", "neuron"):
            return PlainTextResponse("no such export", 404)

        async def made(slot: int) -> Job:
            asked = json.loads(await _limited(request, MOST_BYTES))
            job = self._job(slot, asked, what)
            return job if what == "trajectory" else replace(job, at=_moment(asked))

        return await self._made(made, "application/octet-stream")

    async def _open(self, request: Request) -> Response:
        """Answer with what a file holds: points of a table, or a run."""
        if (refused := self._guarded(request, origin=True)) is not None:
            return refused
        name = Path(request.query_params.get("name", "")).name[:100]
        if name.lower().endswith((".csv", ".tsv", ".txt", ".dat", ".gz")):
            try:
                pairs = read_pairs(BytesIO(await _limited(request, MOST_FILE)), PairOptions())
                points = [[float(x), float(y)] for x, y in zip(pairs.x, pairs.y, strict=True)]
                SCENES["free"].state({"points": points})
                return JSONResponse({"points": points, "notes": list(pairs.notes)})
            except (ShallowflowError, ValueError) as error:
                return JSONResponse({"error": str(error)[:500]}, 400)

        async def made(slot: int) -> Job:
            return Job(slot, 1, name, {}, "open", content=await _limited(request, MOST_FILE))

        return await self._made(made, "application/octet-stream")

    async def _made(self, job: Callable[[int], Awaitable[Job]], kind: str) -> Response:
        """Answer with what a job gives, in a slot of its own."""
        slot = self.workers.enter()
        if slot is None:
            return JSONResponse({"error": BUSY}, 503)
        try:
            one = await job(slot)
            self.workers.announce(slot, one.number)
            return Response(await self.workers.run(one) or b"", media_type=kind)
        except (ShallowflowError, ValueError, RecursionError) as error:
            return JSONResponse({"error": str(error)[:500]}, 400)
        finally:
            self.workers.leave(slot)

    # --- Runs.

    async def _socket(self, line: WebSocket) -> None:
        """Answer requests until the page is closed; a new one outdates those before it."""
        if not self._known(line.headers, line.cookies, origin=True):
            await line.close(1008)
            return
        slot = self.workers.enter()
        await line.accept()
        if slot is None:
            await line.send_text(json.dumps({"n": 0, "error": BUSY}))
            await line.close(1013)
            return
        tasks: set[asyncio.Task[None]] = set()
        loop, sending = asyncio.get_running_loop(), asyncio.Lock()

        async def pass_on(message: bytes) -> None:
            with suppress(WebSocketDisconnect, RuntimeError):
                async with sending:
                    await line.send_bytes(message)

        def part(number: int, message: bytes) -> None:
            # From the thread that reads the queue; what is outdated by now is not sent.
            if self.workers.is_latest(slot, number):
                asyncio.run_coroutine_threadsafe(pass_on(message), loop)

        self.workers.listen(slot, part)
        try:
            while True:
                text = await line.receive_text()
                task = asyncio.create_task(self._answer(line, sending, slot, text))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
        except (WebSocketDisconnect, KeyError):
            pass
        finally:
            self.workers.leave(slot)
            for task in tasks:
                task.cancel()

    async def _answer(self, line: WebSocket, sending: asyncio.Lock, slot: int, text: str) -> None:
        """Run one request and send what came out, unless a newer one has come."""
        number = 0
        # A page that was closed meanwhile is not an error.
        with suppress(WebSocketDisconnect, RuntimeError):
            try:
                if len(text) > MOST_BYTES:
                    raise InvalidInputError(f"message: must have at most {MOST_BYTES} bytes, got {len(text)}")
                asked = json.loads(text)
                going = isinstance(asked, dict) and asked.get("going") is True
                job = self._job(slot, asked, "preview" if going else "show")
                number = job.number
                self.workers.announce(slot, number)
                made = await self.workers.run(job)
                if made is not None:
                    async with sending:
                        await line.send_bytes(made)
            except (ShallowflowError, ValueError, RecursionError) as error:
                async with sending:
                    await line.send_text(json.dumps({"n": number, "error": str(error)[:500]}))

    def _job(self, slot: int, asked: object, wanted: str) -> Job:
        """Return the job that a message asks for, its state checked."""
        if not isinstance(asked, dict):
            raise InvalidInputError("message: must be an object with n, scene and state")
        number, name = asked.get("n", 1), asked.get("scene")
        if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 2**53:
            raise InvalidInputError("n: must be a whole number > 0")
        if not isinstance(name, str) or name not in SCENES:
            raise InvalidInputError(f"scene: must be one of {', '.join(SCENES)}, got {str(name)[:40]!r}")
        state = SCENES[name].state(asked.get("state", {}))
        return Job(slot, number, name, state.plain(), wanted)


def _moment(asked: dict[str, Any]) -> tuple[float, int]:
    """Return the time and the number of the neuron that a message asks for."""
    moment, neuron = asked.get("time"), asked.get("neuron")
    if isinstance(moment, bool) or not isinstance(moment, int | float):
        raise InvalidInputError("time: must be a number")
    if isinstance(neuron, bool) or not isinstance(neuron, int):
        raise InvalidInputError("neuron: must be a whole number")
    return float(moment), neuron


async def _limited(request: Request, most: int) -> bytes:
    """Return the body of a request, refused as soon as it is too large."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise InvalidInputError(f"request: must have at most {most:,} bytes")
    return bytes(body)


def serve(explorer: Explorer, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Answer on a socket that is bound to 127.0.0.1, until Ctrl-C; `ready` is called once the server does."""
    import uvicorn

    config = uvicorn.Config(
        explorer.application,
        log_level="error",
        ws="websockets-sansio",
        ws_max_size=MOST_BYTES,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)

    async def all_of_it() -> None:
        serving = asyncio.create_task(server.serve([listening]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.02)
        if server.started:
            ready()
        await serving

    with suppress(KeyboardInterrupt):
        asyncio.run(all_of_it())


FOLDER = files("shallowflow.explorer") / "page"
MODULES = tuple(sorted(file.name for file in FOLDER.iterdir() if file.name.endswith(".js")))
TYPES = {".js": "text/javascript", ".css": "text/css"}


def text_of(name: str) -> str:
    """Return a file of the page."""
    return (FOLDER / name).read_text(encoding="utf-8")


POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline' "
    "data:; style-src 'unsafe-inline'; img-src data: blob:\">"
)
"""Of a page in a file: it loads nothing from anywhere."""


def _assembled(head: tuple[str, str], imports: dict[str, str], data: dict[str, Any], nonce: str) -> str:
    """Return the document with its policy and style, its import map and its data."""
    # "</" would end the script early, whatever the data are.
    said = json.dumps(data).replace("</", "<\\/")
    return (
        text_of("index.html")
        .replace("<!--policy-->", head[0])
        .replace("<!--style-->", head[1])
        .replace("<!--imports-->", json.dumps({"imports": imports}))
        .replace("<!--data-->", said)
        .replace("NONCE", nonce)
    )


def served(nonce: str, scene: str, state: dict[str, Any]) -> str:
    """Return the page of the server."""
    imports = {f"explorer/{name.removesuffix('.js')}": f"/page/{name}" for name in MODULES}
    scenes = [one.described() for one in (*SCENES.values(), SAVED)]
    data = {"scenes": scenes, "scene": scene, "state": state}
    return _assembled(("", '<link rel="stylesheet" href="/page/style.css">'), imports, data, nonce)


def standalone(message: bytes) -> str:
    """Return one file that shows a run (`scene.packed`), plays and scrubs; nothing is loaded."""
    scene = _scene_of(message)

    def inline(name: str) -> str:
        encoded = base64.b64encode(text_of(name).encode()).decode()
        return f"data:text/javascript;base64,{encoded}"

    imports = {f"explorer/{name.removesuffix('.js')}": inline(name) for name in MODULES}
    run = base64.b64encode(message).decode()
    data = {"scenes": [scene.described()], "scene": scene.name, "state": {}, "run": run}
    return _assembled((POLICY, f"<style>{text_of('style.css')}</style>"), imports, data, "")


def _scene_of(message: bytes) -> Scene:
    """Return the scene that a message names."""
    try:
        (length,) = struct.unpack_from("<I", message)
        name = json.loads(message[4 : 4 + length])["scene"]
        return {**SCENES, SAVED.name: SAVED}[name]
    except (struct.error, ValueError, LookupError, TypeError, RecursionError) as error:
        raise InvalidInputError("request: must be a run as the page received it") from error
