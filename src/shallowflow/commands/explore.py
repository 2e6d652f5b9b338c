"""`shallowflow explore`: the interactive page, on this machine."""

from __future__ import annotations

import socket
import webbrowser
from typing import Any

import click

from shallowflow.errors import InvalidInputError


@click.command()
@click.argument("data", required=False)
@click.option("--scene", help="alignment (default), plateau, jumps, rates, two-timescales or free.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port (default: a free one).")
@click.option(
    "--browser/--no-browser", "browser", default=True, help="Open the page, or only say where it is."
)
def explore(data: str | None, scene: str | None, port: int, browser: bool) -> None:
    """Open a page on which points can be dragged while a network learns them.

    DATA is a table with the columns x and y (CSV and its kin); its points are shown in the scene "free". The
    page is served on this machine only (127.0.0.1), to whoever has the address with its token. Ctrl-C ends
    it.

    \b
    Examples:
      shallowflow explore
      shallowflow explore my_curve.csv
      shallowflow explore --scene jumps --no-browser
    """
    try:
        from shallowflow.explorer.scenes import SCENES
        from shallowflow.explorer.server import Explorer, serve
        from shallowflow.explorer.workers import Workers
    except ModuleNotFoundError as error:
        needed = "pip install 'shallowflow[explorer]'"
        raise InvalidInputError(f"explore: needs {error.name}, which is not installed: {needed}") from error
    from shallowflow.arrays import one_of
    from shallowflow.reporting.terminal import progress_bar

    state: dict[str, Any] = {} if data is None else {"points": _points(data)}
    name = one_of(scene or ("alignment" if data is None else "free"), "scene", tuple(SCENES))
    SCENES[name].state(state)
    listening = _bound(port)
    port = listening.getsockname()[1]
    workers = Workers()
    try:
        with progress_bar("loading what has been compiled, or compiling it") as show:
            show(0.1, "")
            workers.warm()
        explorer = Explorer(workers, port, name, state)
        address = f"http://127.0.0.1:{port}/?token={explorer.token}"

        def ready() -> None:
            click.echo(address)
            if browser:
                webbrowser.open(address)

        serve(explorer, listening, ready)
    finally:
        workers.close()
        listening.close()


def _points(file: str) -> list[list[float]]:
    """Return the points of a table: its columns x and y, or the two it has."""
    from shallowflow.data.table import PairOptions, read_pairs

    pairs = read_pairs(file, PairOptions())
    return [[float(x), float(y)] for x, y in zip(pairs.x, pairs.y, strict=True)]


def _bound(port: int) -> socket.socket:
    """Return a socket on 127.0.0.1, on a free port if it is 0."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(("127.0.0.1", port))
    except OSError as error:
        made.close()
        raise InvalidInputError(f"--port: {port} cannot be used: {error.strerror}") from error
    return made
