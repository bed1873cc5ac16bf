"""Sphinx's configuration; `tox -e docs` builds with warnings as errors."""

from __future__ import annotations

import re
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

project = "hivesub"
author = copyright = "hivesub contributors"
_package = (Path(__file__).parents[1] / "hivesub" / "__init__.py").read_text()
release = re.findall(r'^__version__ = "(.+)"$', _package, re.MULTILINE)[0]

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"hivesub {release}"


def setup(app: Sphinx) -> None:
    """Mermaid drawings stand as text: they are drawn where the page is read on a forge."""
    app.add_lexer("mermaid", TextLexer)
