"""Equations as MathML, which every current browser draws without JavaScript, fonts or a network.

docutils contains the converter, so no package is added. An equation that it cannot convert is a warning, and a warning
fails the build.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", inline_renderers=(write_inline, None), block_renderers=(write_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def write_inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(f'<span class="math">{to_mathml(node, as_block=False)}</span>')
    raise nodes.SkipNode


def write_block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math">{to_mathml(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def to_mathml(node: nodes.Element, *, as_block: bool) -> str:
    """Return the equation of the node as a ``<math>`` element; a block may have several lines, aligned at ``&``."""
    text = node.astext()
    if as_block and ("\\\\" in text or "&" in text) and "\\begin" not in text:
        text = f"\\begin{{aligned}}{text}\\end{{aligned}}"
    try:
        return str(latex2mathml.tex2mathml(text, as_block=as_block))
    except (MathError, SyntaxError) as error:
        logger.warning("%s: not an equation (%s)", text, error, location=node)
        return ""
