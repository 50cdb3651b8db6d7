"""How Sphinx builds the pages: `python -m sphinx -W -b html docs docs/_build`. They load nothing from elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "launch")]

from docs import facts  # noqa: E402 - the folder that holds `docs` has to be on the path first

project = "agent-grid"
project_copyright = "agent-grid, Apache-2.0"
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "facts"]
suppress_warnings = ["myst.strikethrough"]
html_theme = "furo"
html_title = "agent-grid"
html_static_path = ["static"]
html_css_files = ["wide.css"]
html_show_sphinx = False
html_copy_source = False
html_show_search_summary = False  # a page opened from a disk may not fetch another one
html_theme_options = {"source_repository": "", "navigation_with_keys": True}
pygments_style = "default"
highlight_language = "text"
smartquotes = False


def setup(app: Sphinx) -> None:
    """Fill in what pages take from the code; those that do are read at every build."""
    app.connect("source-read", _filled)
    app.connect("env-get-outdated", _asking)


def _filled(app: Sphinx, name: str, source: list[str]) -> None:
    source[0] = facts.expanded(source[0])


def _asking(app: Sphinx, env: BuildEnvironment, added: set[str], changed: set[str], removed: set[str]) -> list[str]:
    return [name for name in env.found_docs if "<!-- facts " in Path(env.doc2path(name)).read_text(encoding="utf-8")]
