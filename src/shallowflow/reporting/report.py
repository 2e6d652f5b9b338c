"""The report of reproductions: one HTML page with everything inside, its figures, films and numbers as files.

**The page** has a card per paper: its story, then every experiment. It is readable on a telephone, on
paper and in the dark; every text in it is escaped. Each paper's story in two plain sentences, and its
letters, explained, stand here, too.

**One experiment** has figures, a line of verdict, claims that fail or are open, the others folded. Claims of
one statement in several settings, such as the printed ones and the authors', stand side by side.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from shallowflow.arrays import shown
from shallowflow.errors import InvalidInputError
from shallowflow.experiments.experiment import Claim, Reproduction, apart, tally, tally_text
from shallowflow.experiments.figure import Animation, Figure
from shallowflow.files import probe, write_atomically
from shallowflow.reporting.figures import renderer
from shallowflow.reporting.figures.renderer import FORMATS, render, render_all
from shallowflow.reporting.summary import (
    by_paper,
    claims_text,
    counts,
    for_html,
    seconds_text,
    summary,
    versions,
)

MARKS = {True: ("✓", "yes"), False: ("✗", "no"), None: ("?", "open")}
Picture = Callable[[Figure], bytes]
"""From a figure to its SVG file."""
Film = Callable[[Animation], tuple[str, bytes]]
"""From an animation to the path of its files, without their ending, and its GIF."""


def card(reproduction: Reproduction, picture: Picture, film: Film | None) -> str:
    """Return the HTML of an experiment."""
    experiment = reproduction.experiment
    theirs, ours = apart(reproduction.claims)
    pictures = "".join(_figure(figure, picture) for figure in reproduction.figures)
    films = "".join(_film(one, *film(one)) for one in reproduction.animations) if film else ""
    found = _error(reproduction.error) if reproduction.error else _claims(theirs)
    if ours:
        found += f"<h4>Asked by us, not in the paper</h4>\n{_claims(ours)}"
    return (
        f'<article id="{anchor(reproduction)}">\n<h3>{for_html(experiment.title)}</h3>\n'
        f'<p class="fine"><code>{escape(experiment.name)}</code> · {escape(experiment.source)} · '
        f"{escape(reproduction.scale)} scale · {seconds_text(reproduction.seconds)}"
        f"{escape(_seeds(reproduction) + _other_versions(reproduction))}</p>\n"
        f"{pictures}{films}{found}{_parameters(reproduction.parameters)}</article>\n"
    )


def anchor(reproduction: Reproduction) -> str:
    """Return the name by which links find an experiment."""
    return escape("".join(c if c.isalnum() else "-" for c in reproduction.experiment.name))


def marks_of(claims: Sequence[Claim]) -> str:
    """Return the counts of claims as marks: ✓ 3 ✗ 1 ? 2."""
    found = zip(MARKS.values(), tally(claims).values(), strict=True)
    return " ".join(
        f'<span class="{name}">{mark} {number}</span>' for (mark, name), number in found if number
    )


def _seeds(reproduction: Reproduction) -> str:
    pairs = parameters_text(reproduction.parameters)
    return "".join(f" · {name} {value}" for name, value in pairs if "seed" in name)


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
    """Return a line of verdict, what fails or is open, and what holds, folded."""
    if not claims:
        return '<p class="fine">This experiment makes no claims.</p>\n'
    groups: dict[str, list[Claim]] = {}
    for claim in claims:
        groups.setdefault(claim.statement, []).append(claim)
    settled = [group for group in groups.values() if all(claim.holds for claim in group)]
    others = [group for group in groups.values() if group not in settled]
    folded = "".join(map(_group, settled))
    number = sum(map(len, settled))
    words = "1 claim holds" if number == 1 else f"{number} claims hold"
    if others and number:
        words += " in every setting" if any(claim.setting for group in others for claim in group) else ""
    verdict = f'<p class="verdict">{marks_of(claims)}&ensp;{tally_text(claims)}.</p>\n'
    fold = f"<details><summary>{words}</summary>\n{folded}</details>\n" if settled else ""
    return verdict + "".join(map(_group, others)) + fold


def _group(claims: Sequence[Claim]) -> str:
    """Return a statement, what was published, and what came out, in all settings side by side."""
    published = {claim.published for claim in claims}
    common = (
        f'<p class="published">{_fact("Published", claims[0].published)}</p>\n' if len(published) == 1 else ""
    )
    sides = "".join(_side(claim, not common) for claim in claims)
    return (
        f'<div class="claim">\n<p class="statement">{for_html(claims[0].statement)}</p>\n{common}'
        f'<div class="sides">\n{sides}</div>\n</div>\n'
    )


def _side(claim: Claim, with_published: bool) -> str:
    mark, name = MARKS[claim.holds]
    setting = f"<strong>{escape(claim.setting)}</strong> " if claim.setting else ""
    facts = [("Published", claim.published)] if with_published else []
    facts += [("Measured", claim.measured), ("Fails", claim.fails_if), ("Reason", claim.reason)]
    rows = "".join(f"<p>{_fact(*fact)}</p>" for fact in facts if fact[1])
    verdict = f'<p>{setting}<span class="{name}">{mark} {claim.word}</span></p>'
    return f'<div class="side {name}-side">\n{verdict}{rows}\n</div>\n'


def _fact(name: str, text: str) -> str:
    return f'<span class="fact">{name}</span> {for_html(text)}'


def _figure(figure: Figure, picture: Picture) -> str:
    notes = "".join(f"<br>{for_html(note)}" for note in figure.notes)
    return _image(figure.title or figure.name, "svg+xml", picture(figure), for_html(figure.caption) + notes)


def _film(animation: Animation, path: str, gif: bytes) -> str:
    link = escape(path)
    caption = (
        f"{for_html(animation.title)}, over time: "
        f'<a href="{link}.html">with a slider</a>, <a href="{link}.gif">GIF</a>'
    )
    return _image(f"{animation.title}, over time", "gif", gif, caption)


def _image(title: str, kind: str, content: bytes, caption: str) -> str:
    data = base64.b64encode(content).decode("ascii")
    below = f"<figcaption>{caption}</figcaption>\n" if caption else ""
    image = f'<img alt="{escape(title)}" src="data:image/{kind};base64,{data}">'
    return f'<figure>\n<div class="picture">{image}</div>\n{below}</figure>\n'


def _parameters(parameters: Mapping[str, Any]) -> str:
    """Return the parameters, folded; what differs between settings in a table with a column for each."""
    settings = {name: value for name, value in parameters.items() if _by_setting(value)}
    rest = {name: value for name, value in parameters.items() if name not in settings}
    pairs = parameters_text(rest)
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs)
    inside = (_side_by_side(settings) if settings else "") + f'<dl class="parameters">{items}</dl>\n'
    return f"<details><summary>Parameters</summary>\n{inside}</details>\n" if parameters else ""


def _by_setting(value: Any) -> bool:
    return isinstance(value, Mapping) and {"printed", "authors"} <= set(map(str, value))


def _side_by_side(settings: Mapping[str, Mapping[str, Any]]) -> str:
    columns = dict.fromkeys(column for value in settings.values() for column in value)
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    rows = "".join(
        f"<tr><td>{escape(name)}</td>"
        + "".join(f"<td>{escape(_value(of.get(column, '')))}</td>" for column in columns)
        + "</tr>\n"
        for name, of in settings.items()
    )
    return f"<table>\n<thead><tr><th></th>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"


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
        nested = any(isinstance(entry, Mapping | list | tuple) for entry in value)
        return ("; " if nested else ", ").join(words)
    if isinstance(value, Mapping):
        return "; ".join(
            f"{_value(name, seed)}: {_value(entry, seed or 'seed' in str(name))}"
            for name, entry in value.items()
        )
    return shown(value)


SETTINGS = (
    "“Printed” settings are those that the text of a paper states; “authors” settings are those of the "
    "authors’ own published programs, where the two differ."
)
TITLE = "What the papers claim, and what came out"
FRAMES = 12
"""So many frames of an animation take the time of a figure, drawn and written twice."""

Progress = Callable[[float, str], None]
"""Called with the fraction done and what is being done."""


def write_report(
    reproductions: Sequence[Reproduction], directory: str | Path, progress: Progress | None = None
) -> Path:
    """Write report.html, reproductions.json, figures/*.svg and *.png, and animations/*.html and *.gif.

    Returns the path of the page.

    The page is written last: where it is, everything that belongs to it is there too.
    """
    directory = prepare_directory(directory)
    prepare_directory(directory / "figures")
    work = _Work(reproductions, progress)
    pictures: dict[int, bytes] = {}
    for stem, figure in _named(reproductions, "figures"):
        work.show(f"figure {stem}")
        contents = dict(zip(FORMATS, render_all(figure, FORMATS), strict=True))
        pictures[id(figure)] = contents["svg"]
        for format, content in contents.items():
            write_atomically(directory / "figures" / f"{stem}.{format}", content)
        work.finish(1.0)
    moving: dict[int, tuple[str, bytes]] = {}
    for stem, animation in _named(reproductions, "animations"):
        path = prepare_directory(directory / "animations") / stem
        moving[id(animation)] = f"animations/{stem}", _write_film(animation, path, work)
    work.show("the page")
    numbers = json.dumps(summary(reproductions, series=True), ensure_ascii=False, indent=1, allow_nan=False)
    write_atomically(directory / "reproductions.json", numbers.encode())
    page = directory / "report.html"
    text = report_page(
        reproductions,
        picture=lambda figure: pictures[id(figure)],
        film=lambda animation: moving[id(animation)],
    )
    write_atomically(page, text.encode())
    return page


class _Work:
    """What there is to draw, in units of a figure, and how much of it is done."""

    def __init__(self, reproductions: Sequence[Reproduction], progress: Progress | None) -> None:
        self.progress = progress
        self.done = 0.0
        self.total = sum(
            len(one.figures) + sum(len(film.frames) / FRAMES for film in one.animations)
            for one in reproductions
        )

    def show(self, doing: str, more: float = 0.0) -> None:
        if self.progress:
            self.progress((self.done + more) / max(self.total, 1.0), doing)

    def finish(self, part: float) -> None:
        self.done += part


def _write_film(animation: Animation, path: Path, work: _Work) -> bytes:
    """Write an animation as a page and as a GIF; return the GIF."""
    part = len(animation.frames) / FRAMES
    show = f"animation {path.name}"
    drawn = renderer.Film(animation, lambda done: work.show(show, 0.7 * part * done))
    gif = drawn.gif()
    write_atomically(path.with_name(f"{path.name}.gif"), gif)
    work.show(f"{show}, its page", 0.8 * part)
    write_atomically(path.with_name(f"{path.name}.html"), drawn.page())
    work.finish(part)
    return gif


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
    picture: Picture = render,
    film: Film | None = None,
) -> str:
    """Return the HTML page of some reproductions: by paper its story, figures, verdicts and claims.

    `picture` gives the SVG file of a figure; `film` the path of an animation's files without their ending,
    and its GIF (without it animations are left out).
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


def _header(reproductions: Sequence[Reproduction], title: str) -> str:
    number = "1 experiment" if len(reproductions) == 1 else f"{len(reproductions)} experiments"
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    spent = seconds_text(sum(reproduction.seconds for reproduction in reproductions))
    used = " · ".join(f"{escape(name)} {escape(version)}" for name, version in versions().items())
    return (
        f"<header>\n<h1>{escape(title)}</h1>\n"
        f'<p class="score">{claims_text(reproductions)}</p>\n'
        f'<p class="fine">{made} · {number}, {spent} of computing<br>{used}</p>\n</header>\n'
    )


def _contents(papers: Mapping[str, Sequence[Reproduction]]) -> str:
    """Return how each paper fares: a bar of what holds, is open and fails, and links to its experiments."""
    if not papers:
        return "<p>Nothing was reproduced.</p>\n"
    rows = "".join(
        f'<li>\n<p><a href="#{_paper_anchor(paper)}">{escape(story_of(paper).title)}</a> '
        f'<span class="count">{_score(group)}</span></p>\n{_bar(group)}'
        f"<ul>\n{''.join(map(_link, group))}</ul>\n</li>\n"
        for paper, group in papers.items()
    )
    return f'<nav aria-label="Experiments">\n<ul>\n{rows}</ul>\n</nav>\n'


def _link(one: Reproduction) -> str:
    return (
        f'<li><a href="#{anchor(one)}">{for_html(one.experiment.title)}</a> '
        f'<span class="count">{_score([one])}</span></li>\n'
    )


def _score(reproductions: Sequence[Reproduction]) -> str:
    if any(one.error for one in reproductions):
        return '<span class="no">✗ error</span>'
    return marks_of(apart(claim for one in reproductions for claim in one.claims)[0]) or "–"


def _bar(reproductions: Sequence[Reproduction]) -> str:
    found = counts(reproductions)["claims"]
    parts = "".join(
        f'<span class="{name}-bar" style="flex-grow: {found[word]}"></span>'
        for word, name in (("hold", "yes"), ("open", "open"), ("fail", "no"))
        if found[word]
    )
    return f'<div class="bar">{parts}</div>\n'


def _paper_anchor(paper: str) -> str:
    return escape("paper-" + "".join(c if c.isalnum() else "-" for c in paper))


def _paper(paper: str, reproductions: Sequence[Reproduction], picture: Picture, film: Film | None) -> str:
    """Return a paper's card: its story, the letters that follow, its experiments."""
    story = story_of(paper)
    letters = "".join(
        f"<div><dt>{for_html(letter)}</dt><dd>{for_html(meaning)}</dd></div>"
        for letter, meaning in story.letters_in(_texts(reproductions))
    )
    settings = any(claim.setting for one in reproductions for claim in one.claims)
    return (
        f'<section id="{_paper_anchor(paper)}">\n<h2>{escape(story.title)}</h2>\n'
        + (f'<p class="story">{for_html(story.sentences)}</p>\n' if story.sentences else "")
        + (f'<dl class="letters">{letters}</dl>\n' if letters else "")
        + (f'<p class="fine">{SETTINGS}</p>\n' if settings else "")
        + "".join(card(one, picture, film) for one in reproductions)
        + "</section>\n"
    )


def _texts(reproductions: Sequence[Reproduction]) -> Iterator[str]:
    """Yield every text of some experiments in which a letter may stand."""
    for one in reproductions:
        yield one.experiment.title
        for figure in one.figures:
            yield from (figure.title, figure.caption, *figure.notes)
            for panel in figure.panels:
                yield from (panel.title, panel.x_label, panel.y_label, *(s.label for s in panel.series))
        for claim in one.claims:
            yield from (claim.statement, claim.published, claim.measured, claim.reason)


class Story(NamedTuple):
    """A paper for a reader who does not know it: a title, two sentences, letters and what they stand for."""

    title: str
    sentences: str = ""
    letters: tuple[tuple[str, str], ...] = ()

    def letters_in(self, texts: Iterable[str]) -> list[tuple[str, str]]:
        """Return the letters that occur in some texts, with their meanings, in the story's order."""
        joined = "\n".join(texts)
        return [pair for pair in self.letters if re.search(rf"(?<!\w){re.escape(pair[0])}(?!\w)", joined)]


STORIES = {
    "two_timescale": Story(
        "Two timescales",
        "A network of smooth steps learns a function that jumps: its weights, trained fast, always fit as"
        " well as the steps’ places allow, and the places, trained slowly, drift to the jumps. Trained at"
        " one speed, neurons wander off while the weights are still wrong, and a jump may be left alone.",
        (
            ("f", "the network"),
            ("f*", "the function to be learned"),
            ("ε", "how much slower the places of the neurons are trained than their weights"),
            ("η", "the width of a smooth step"),
            ("τ", "slow time, ε times the time of training"),
            ("m", "the number of neurons"),
            ("h", "the length of a training step"),
            ("a*", "the weights that fit best with the neurons where they are"),
        ),
    ),
    "early_alignment": Story(
        "Early alignment",
        "A network that starts very small first turns its neurons, before it learns anything visible, "
        "towards a few directions that the data alone decide. A wide network then acts like a narrow one:"
        " it generalises well, or is stuck at a fit that two neurons could beat.",
        (
            ("λ", "the size of the start"),
            ("τ", "the end of the early phase"),
            ("w_j", "the weights of a neuron from the inputs"),
            ("a_j", "its weight to the output"),
            ("G", "the function on directions whose critical points attract the neurons"),
            ("ε", "an exponent that trades time for accuracy"),
        ),
    ),
    "incremental": Story(
        "Incremental learning",
        "On orthogonal inputs a tiny network learns in jumps: for long it rests near a saddle, then one "
        "neuron grows and fits all the points on which it is active. A short algorithm foretells which "
        "points fall when, and the network that results is nearly the simplest that fits.",
        (
            ("α", "the size of the start"),
            ("n", "the number of points"),
            ("m", "the number of neurons"),
            ("t_n", "the time by which everything is fitted"),
        ),
    ),
    "weak_interaction": Story(
        "Weak interaction",
        "If inputs are nearly orthogonal, every point is learned almost by itself, and a small network "
        "fits them all at an exponential speed. How few neurons, how many dimensions and how fast is what"
        " the figures ask.",
        (
            ("μ", "the rate at which the loss falls, relative to the loss"),
            ("n", "the number of points"),
            ("p", "the number of neurons"),
            ("d", "the dimension of the inputs"),
        ),
    ),
    "plateau": Story(
        "Plateaus",
        "The paper’s account of plateaus: while no kink of the network passes a data point, training can "
        "only improve the straight pieces between kinks, and the loss comes to rest. A method that moves "
        "kinks on purpose, one data point at a time, gets past.",
        (
            ("b_j", "the place of a kink"),
            ("c_j", "the weight of a neuron"),
            ("Q_0", "the loss that the best lines of the present stage leave"),
        ),
    ),
}


def story_of(paper: str) -> Story:
    """Return a paper's story; of a paper that is not one of the five, its word as a title."""
    return STORIES.get(paper) or Story(paper.replace("_", " ").capitalize())
