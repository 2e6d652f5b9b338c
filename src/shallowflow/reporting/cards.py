"""One experiment on the page: figures, a line of verdict, claims that fail or are open, the others folded.

Claims of one statement in several settings, such as the printed ones and the authors', stand side by side.
Every text is escaped.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from shallowflow.arrays import shown
from shallowflow.experiments.claim import Claim, apart, tally, tally_text
from shallowflow.experiments.experiment import Reproduction
from shallowflow.experiments.figure import Animation, Figure
from shallowflow.reporting.summary import versions
from shallowflow.reporting.typeset import for_html, seconds_text

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
