"""The server of the page: on this machine only, for whoever has the token.

The token comes once in the address and becomes a cookie. Host and Origin must be this server's own: no other
page in the same browser can talk to it. Messages: text up ({n, scene, state}), one binary answer down
(`scene.packed`) or text ({n, error}); of several requests the latest wins.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from shallowflow.errors import InvalidInputError, ShallowflowError
from shallowflow.explorer.pages import MODULES, TYPES, served, standalone, text_of
from shallowflow.explorer.scenes import SCENES
from shallowflow.explorer.workers import Job, Workers

COOKIE = "shallowflow"
TOKEN = "SHALLOWFLOW_TOKEN"
"""Environment variable that keeps the token, so that pages find a server that was started again."""
MOST_BYTES = 2**20
"""Of one request."""
EXPORTS = ("trajectory", "standalone")


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
                Route("/export/{what}", self._export, methods=["POST"]),
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
            f"default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self' 'unsafe-inline'; "
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

    async def _export(self, request: Request) -> Response:
        """Answer with a file: the trajectory, or the page that plays by itself."""
        if (refused := self._guarded(request, origin=True)) is not None:
            return refused
        what = request.path_params["what"]
        if what not in EXPORTS:
            return PlainTextResponse("no such export", 404)
        slot = self.workers.enter()
        if slot is None:
            return JSONResponse({"error": "the server is busy: close another page"}, 503)
        try:
            body = await _limited(request)
            job = self._job(slot, json.loads(body), "trajectory" if what == "trajectory" else "show")
            self.workers.announce(slot, job.number)
            made = await self.workers.run(job) or b""
        except (ShallowflowError, ValueError) as error:
            return JSONResponse({"error": str(error)}, 400)
        finally:
            self.workers.leave(slot)
        if what == "trajectory":
            return Response(made, media_type="application/octet-stream")
        return HTMLResponse(standalone(made, job.scene))

    # --- Runs.

    async def _socket(self, socket: WebSocket) -> None:
        """Answer requests until the page is closed; a new one outdates those before it."""
        if not self._known(socket.headers, socket.cookies, origin=True):
            await socket.close(1008)
            return
        slot = self.workers.enter()
        await socket.accept()
        if slot is None:
            await socket.send_text(json.dumps({"n": 0, "error": "the server is busy: close another page"}))
            await socket.close(1013)
            return
        tasks: set[asyncio.Task[None]] = set()
        try:
            while True:
                text = await socket.receive_text()
                task = asyncio.create_task(self._answer(socket, slot, text))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
        except (WebSocketDisconnect, KeyError):
            pass
        finally:
            self.workers.leave(slot)
            for task in tasks:
                task.cancel()

    async def _answer(self, socket: WebSocket, slot: int, text: str) -> None:
        """Run one request and send what came out, unless a newer one has come."""
        number = 0
        # A page that was closed meanwhile is not an error.
        with suppress(WebSocketDisconnect, RuntimeError):
            try:
                if len(text) > MOST_BYTES:
                    raise InvalidInputError(f"message: must have at most {MOST_BYTES} bytes, got {len(text)}")
                asked = json.loads(text)
                job = self._job(slot, asked, "show")
                number = job.number
                self.workers.announce(slot, number)
                made = await self.workers.run(job)
                if made is not None:
                    await socket.send_bytes(made)
            except (ShallowflowError, ValueError, RecursionError) as error:
                await socket.send_text(json.dumps({"n": number, "error": str(error)[:500]}))

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
        return Job(slot, number, name, {**state.values, "points": list(state.points)}, wanted)


async def _limited(request: Request) -> bytes:
    """Return the body of a request, refused as soon as it is too large."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise InvalidInputError(f"request: must have at most {MOST_BYTES} bytes")
    return body


def serve(explorer: Explorer, port: int, ready: Callable[[], Awaitable[None]]) -> None:
    """Listen on 127.0.0.1 until Ctrl-C; `ready` is awaited once the server answers."""
    import uvicorn

    config = uvicorn.Config(
        explorer.application,
        host="127.0.0.1",
        port=port,
        log_level="error",
        ws="websockets-sansio",
        ws_max_size=MOST_BYTES,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)

    async def all_of_it() -> None:
        serving = asyncio.create_task(server.serve())
        while not server.started and not serving.done():
            await asyncio.sleep(0.02)
        if server.started:
            await ready()
        await serving

    with suppress(KeyboardInterrupt):
        asyncio.run(all_of_it())
