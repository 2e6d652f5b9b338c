"""The report of reproductions: one HTML page with everything inside, its figures, films and numbers as files.

The page is readable on paper and in the dark; every text in it is escaped.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from shallowflow.arrays import shown
from shallowflow.errors import InvalidInputError
from shallowflow.experiments.claim import Claim
from shallowflow.experiments.experiment import Reproduction
from shallowflow.experiments.figure import Animation, Figure
from shallowflow.files import probe, write_atomically
from shallowflow.reporting.figures.animation import ENDINGS, write_animation
from shallowflow.reporting.figures.renderer import FORMATS, render, render_all
from shallowflow.reporting.summary import by_paper, claims_text, counts, summary, versions
from shallowflow.reporting.typeset import for_html, seconds_text

SETTINGS = (
    "“Printed” settings are those that the text of a paper states; “authors” settings are those of the "
    "authors’ own published programs, where the two differ."
)
TITLE = "What the papers claim, and what came out"


def write_report(reproductions: Sequence[Reproduction], directory: str | Path) -> Path:
    """Write report.html, reproductions.json, figures/*.svg and *.png, and animations/*.html and *.gif.

    Returns the path of the page.

    The page is written last: where it is, everything that belongs to it is there too.
    """
    directory = prepare_directory(directory)
    prepare_directory(directory / "figures")
    pictures: dict[int, bytes] = {}
    for stem, figure in _named(reproductions, "figures"):
        contents = dict(zip(FORMATS, render_all(figure, FORMATS), strict=True))
        pictures[id(figure)] = contents["svg"]
        for format, content in contents.items():
            write_atomically(directory / "figures" / f"{stem}.{format}", content)
    films: dict[int, str] = {}
    for stem, animation in _named(reproductions, "animations"):
        folder = prepare_directory(directory / "animations")
        write_animation(animation, *(folder / f"{stem}{ending}" for ending in ENDINGS))
        films[id(animation)] = f"animations/{stem}"
    numbers = json.dumps(summary(reproductions, series=True), ensure_ascii=False, indent=1, allow_nan=False)
    write_atomically(directory / "reproductions.json", numbers.encode())
    page = directory / "report.html"
    text = report_page(
        reproductions,
        picture=lambda figure: pictures[id(figure)],
        film=lambda animation: films[id(animation)],
    )
    write_atomically(page, text.encode())
    return page


def _named(reproductions: Sequence[Reproduction], field: str) -> Iterator[tuple[str, Any]]:
    """Yield all figures (animations) with a file name each: paper-name, of letters, digits and dashes."""
    taken: set[str] = set()
    for reproduction in reproductions:
        for figure in getattr(reproduction, field):
            words = f"{reproduction.experiment.paper}-{figure.name}"
            stem = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in words)[:100]
            number = 2
            unique = stem
            while unique in taken:
                unique, number = f"{stem}-{number}", number + 1
            taken.add(unique)
            yield unique, figure


def prepare_directory(directory: str | Path, name: str = "directory") -> Path:
    """Make a directory unless it is there, and refuse one that takes no files."""
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
        probe(directory)
    except OSError as error:
        raise InvalidInputError(
            f"{name}: must be a writable directory, got {shown(str(directory))} ({error.strerror})"
        ) from error
    return Path(directory)


def report_page(
    reproductions: Sequence[Reproduction],
    title: str = TITLE,
    *,
    picture: Callable[[Figure], bytes] = render,
    film: Callable[[Animation], str] | None = None,
) -> str:
    """Return the HTML page of some reproductions: claims tables, figures, parameters.

    `picture` gives the SVG file of a figure, `film` the path of an animation's files without their ending
    (without it animations are not linked); every text is escaped.
    """
    style = files("shallowflow.reporting").joinpath("page.css").read_text(encoding="utf-8")
    papers = by_paper(reproductions)
    body = "".join(_paper(paper, of_paper, picture, film) for paper, of_paper in papers.items())
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"{_header(reproductions, title)}<main>\n{_contents(papers)}{body}</main>\n</body>\n</html>\n"
    )


def parameters_text(parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return parameters as pairs of short texts."""
    return [(str(name), _value(value, "seed" in str(name))) for name, value in parameters.items()]


def _value(value: Any, seed: bool = False) -> str:
    """Return a value as people write it; a seed is a name, not a quantity: its digits are not grouped."""
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return str(value) if seed else f"{value:,}"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple) and len(value) <= 12:
        words = [_value(entry, seed) for entry in value]
        return ("; " if any(isinstance(entry, Mapping | list | tuple) for entry in value) else ", ").join(
            words
        )
    if isinstance(value, Mapping):
        return "; ".join(
            f"{_value(name, seed)}: {_value(entry, seed or 'seed' in str(name))}"
            for name, entry in value.items()
        )
    return shown(value)


def _heading(paper: str) -> str:
    return escape(paper.replace("_", " ").capitalize())


def _header(reproductions: Sequence[Reproduction], title: str) -> str:
    number = "1 experiment" if len(reproductions) == 1 else f"{len(reproductions)} experiments"
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    spent = seconds_text(sum(reproduction.seconds for reproduction in reproductions))
    used = " · ".join(f"{escape(name)} {escape(version)}" for name, version in versions().items())
    return (
        f"<header>\n<h1>{escape(title)}</h1>\n"
        f'<p class="score">{claims_text(reproductions)}</p>\n'
        f'<p class="fine">{made} · {number}, {spent} of computing<br>{used}</p>\n'
        f'<p class="fine">{SETTINGS}</p>\n</header>\n'
    )


def _contents(papers: Mapping[str, Sequence[Reproduction]]) -> str:
    if not papers:
        return "<p>Nothing was reproduced.</p>\n"
    rows = "".join(
        f"<tr><td>{_heading(paper)}</td><td>{escape(one.experiment.source)}</td>"
        f'<td><a href="#{_anchor(one)}">{for_html(one.experiment.title)}</a></td>'
        f'<td class="number">{_score(one)}</td><td class="number">{seconds_text(one.seconds)}</td></tr>\n'
        for paper, group in papers.items()
        for one in group
    )
    return (
        '<nav aria-label="Experiments">\n<table>\n<thead><tr><th>Paper</th><th>Where</th><th>Experiment</th>'
        '<th class="number">Hold</th><th class="number">Time</th></tr></thead>\n'
        f"<tbody>\n{rows}</tbody>\n</table>\n</nav>\n"
    )


def _score(reproduction: Reproduction) -> str:
    if reproduction.error:
        return '<span class="no">✗ error</span>'
    found = counts([reproduction])["claims"]
    return f"{found['hold']} of {found['total']}" if found["total"] else "–"


def _anchor(reproduction: Reproduction) -> str:
    return escape("".join(c if c.isalnum() else "-" for c in reproduction.experiment.name))


def _paper(
    paper: str,
    reproductions: Sequence[Reproduction],
    picture: Callable[[Figure], bytes],
    film: Callable[[Animation], str] | None,
) -> str:
    inside = "".join(_experiment(reproduction, picture, film) for reproduction in reproductions)
    return f"<section>\n<h2>{_heading(paper)}</h2>\n{inside}</section>\n"


def _experiment(
    reproduction: Reproduction, picture: Callable[[Figure], bytes], film: Callable[[Animation], str] | None
) -> str:
    experiment = reproduction.experiment
    pairs = parameters_text(reproduction.parameters)
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs)
    figures = "".join(_figure(figure, picture) for figure in reproduction.figures)
    seeds = "".join(f" · {name} {value}" for name, value in pairs if "seed" in name)
    more = escape(seeds + _other_versions(reproduction))
    found = _error(reproduction.error) if reproduction.error else _claims(reproduction.claims)
    films = "".join(_film(one, film(one)) for one in reproduction.animations) if film else ""
    return (
        f'<article id="{_anchor(reproduction)}">\n<h3>{for_html(experiment.title)}</h3>\n'
        f'<p class="fine"><code>{escape(experiment.name)}</code> · {escape(experiment.source)} · '
        f"{escape(reproduction.scale)} scale · {seconds_text(reproduction.seconds)}{more}</p>\n"
        f'{found}{figures}{films}<dl class="parameters">{items}</dl>\n</article>\n'
    )


def _other_versions(reproduction: Reproduction) -> str:
    """Return the versions that computed an earlier result, where they differ from those in the heading."""
    now = versions()
    other = [f"{name} {was}" for name, was in reproduction.versions.items() if now.get(name, was) != was]
    return f" · computed with {', '.join(other)}" if other else ""


def _error(error: str) -> str:
    first, _, rest = error.partition("\n")
    more = f"<details><summary>where</summary><pre>{escape(rest)}</pre></details>\n" if rest else ""
    return f'<p><span class="no">✗ not run to its end</span>: {escape(first)}</p>\n{more}'


def _claims(claims: Sequence[Claim]) -> str:
    if not claims:
        return '<p class="fine">This experiment makes no claims.</p>\n'
    reasons = any(claim.reason for claim in claims)
    rows = "".join(
        f"<tr><td>{'ours: ' * claim.ours}{for_html(claim.statement)}</td><td>{for_html(claim.published)}</td>"
        f"<td>{for_html(claim.measured)}{_fails_if(claim)}</td><td>{_verdict(claim)}</td>"
        + (f"<td>{for_html(claim.reason)}</td></tr>\n" if reasons else "</tr>\n")
        for claim in claims
    )
    last = "<th>Reason</th>" if reasons else ""
    return (
        '<table class="claims">\n<thead><tr><th>Claim</th><th>Published</th><th>Measured</th>'
        f"<th>Holds</th>{last}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"
    )


def _fails_if(claim: Claim) -> str:
    return f'<br><span class="fine">fails {for_html(claim.fails_if)}</span>' if claim.fails_if else ""


def _verdict(claim: Claim) -> str:
    mark, name = {True: ("✓", "yes"), False: ("✗", "no"), None: ("?", "open")}[claim.holds]
    return f'<span class="{name}">{mark} {claim.word}</span>'


def _film(animation: Animation, path: str) -> str:
    link = escape(path)
    return (
        f'<p>Animation: <a href="{link}.html">{escape(animation.title)}, over time</a> '
        f'(<a href="{link}.gif">GIF</a>)</p>\n'
    )


def _figure(figure: Figure, picture: Callable[[Figure], bytes]) -> str:
    data = base64.b64encode(picture(figure)).decode("ascii")
    notes = "".join(f"<br>{for_html(note)}" for note in figure.notes)
    caption = (
        f"<figcaption>{for_html(figure.caption)}{notes}</figcaption>\n" if figure.caption or notes else ""
    )
    return (
        f'<figure>\n<img alt="{escape(figure.title or figure.name)}" '
        f'src="data:image/svg+xml;base64,{data}">\n{caption}</figure>\n'
    )
