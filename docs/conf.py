"""Sphinx configuration of the documentation site; ``make docs`` builds it into docs/_build/html."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]
# The notebooks run in other processes, which must import the same checkout.
os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])

from nmt import __version__  # noqa: E402

project = "Memory attention"
author = "the authors"
copyright = "the authors, MIT licence"
version = release = __version__

extensions = [
    "myst_nb",
    "internal_links",
    "mathml",
    "repository_pages",
]
exclude_patterns = ["_build/html", "_build/jupyter_execute"]
nitpicky = True

# Pages of the site whose text is a file outside docs/.
repository_pages = {
    "_build/pages/benchmarks": "benchmarks/README.md",
    "_build/pages/experiments": "benchmarks/LOG.md",
    "_build/pages/changelog": "CHANGELOG.md",
    "_build/pages/corpora": "data/README.md",
}

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
myst_linkify_fuzzy_links = False
html_math_renderer = "mathml"

# Notebooks run in a temporary folder each time the site is built; an exception fails the build.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300  # seconds per cell
nb_merge_streams = True

html_theme = "furo"
html_title = "Translation with memory-based attention"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"sidebar_hide_name": False}
pygments_style = "friendly"
