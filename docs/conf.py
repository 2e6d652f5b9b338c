"""Configuration of the documentation: `make docs`."""

import re
from itertools import pairwise
from typing import Any

from pybtex.plugin import register_plugin
from pybtex.style.formatting.unsrt import Style
from pybtex.style.labels import BaseLabelStyle
from sphinx.application import Sphinx

from shallowflow.experiments import PAPERS

project = "shallowflow"
author = "the shallowflow authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinxcontrib.bibtex"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_extra_path = ["standalone"]
html_title = "shallowflow"

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_type_aliases = {
    name: name
    for name in ("ArrayLike", "Bools", "Floats", "Ints", "Loss", "Network", "Parameters", "Progress", "Seed")
}
default_role = "code"
napoleon_google_docstring = False

bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "words"


class WordLabels(BaseLabelStyle):
    """Label a reference by its key: one word names each paper, here as in the docstrings."""

    def format_labels(self, entries: list[Any]) -> Any:
        return (entry.key for entry in entries)


class Words(Style):
    """Plain references with the papers' words for labels."""

    default_label_style = WordLabels


register_plugin("pybtex.style.formatting", "words", Words)

FIELDS = ("Parameters", "Attributes")
FIELD = re.compile(r"^(\w[\w, ]*) : (.+)$")
CITATION = re.compile(r"\[(" + "|".join(PAPERS) + r")\b(?:,\s*([^]]*))?\]")
ALIAS = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")


def described(lines: list[str]) -> list[str]:
    """Put what follows `name : ` on a line of its own.

    It describes (types stand in the signature); Napoleon would take it for a type and link its words.
    """
    result: list[str] = []
    section = ""
    for line, following in pairwise([*lines, ""]):
        if following and set(following) == {"-"}:
            section = line
        field = FIELD.match(line) if section in FIELDS else None
        result.extend([field[1], f"    {field[2]}"] if field else [line])
    return result


def adapt_docstring(app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text with formulas: `|a|` is a modulus there, and [plateau] a citation."""
    lines[:] = described(lines)
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            line = line.replace("|", r"\|").replace("*", r"\*")
            lines[i] = CITATION.sub(lambda found: f":cite:`{found[1]}` {found[2] or ''}".rstrip(), line)
    if what in ("attribute", "property"):
        # An empty comment: Napoleon would read a first line "the rank: 2n minus …" as type and description.
        lines[:0] = ["..", ""]


def adapt_signature(
    app: Sphinx, what: str, name: str, obj: object, options: Any, arguments: str | None, result: str | None
) -> tuple[str | None, str | None]:
    """Show an alias by its name where it is part of a union."""
    return arguments and ALIAS.sub(r"\1", arguments), result and ALIAS.sub(r"\1", result)


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", adapt_docstring, priority=400)
    app.connect("autodoc-process-signature", adapt_signature)
