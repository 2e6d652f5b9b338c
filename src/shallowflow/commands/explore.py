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

    DATA is a CSV file with the columns x and y; its points are shown in the scene "free". The page is served
    on this machine only (127.0.0.1), to whoever has the address with its token. Ctrl-C ends it.

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
    port = port or _free_port()
    workers = Workers()
    try:
        with progress_bar("loading what has been compiled, or compiling it") as show:
            show(0.1, "")
            workers.warm()
        explorer = Explorer(workers, port, name, state)
        address = f"http://127.0.0.1:{port}/?token={explorer.token}"

        async def ready() -> None:
            click.echo(address)
            if browser:
                webbrowser.open(address)

        serve(explorer, port, ready)
    finally:
        workers.close()


def _points(file: str) -> list[list[float]]:
    """Return the points of a CSV file with two columns."""
    from shallowflow.data.dataset import Dataset

    dataset = Dataset.from_csv(file)
    if dataset.dimension != 1:
        raise InvalidInputError(f"DATA: must have two columns, x and y, got {dataset.dimension + 1}")
    return [[float(x), float(y)] for (x,), y in zip(dataset.inputs, dataset.targets, strict=True)]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
