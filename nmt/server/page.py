"""The web page of the server, which needs no other file and no other host."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files

from starlette.responses import HTMLResponse

from nmt.alignment.figures import UNIT
from nmt.alignment.page import html_page

OTHERS = "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
COLOURS = 65  # of weights from 0 to 1


def translation_page() -> HTMLResponse:
    """Return the page. Its policy lets a browser run its own script only, and ask this server only."""
    content, headers = _page()
    return HTMLResponse(content, headers=headers)


@cache
def _page() -> tuple[str, dict[str, str]]:
    style, body = files("nmt.server").joinpath("page.html").read_text("utf-8").split("</style>", 1)
    colours = [UNIT.colour(step / (COLOURS - 1)) for step in range(COLOURS)]
    body = body.replace('"COLOURS"', json.dumps(colours, separators=(",", ":")))
    page = html_page("Translate", style.removeprefix("<style>"), body)
    policy = f"script-src {_sources('script', page)}; style-src {_sources('style', page)}; connect-src 'self'"
    headers = {
        "Content-Security-Policy": f"default-src 'none'; {policy}; {OTHERS}",
        "Cache-Control": "no-cache",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
    return page, headers


def _sources(element: str, page: str) -> str:
    """Return the hashes of all elements of this name, as a policy lists them."""
    contents = re.findall(f"<{element}>(.*?)</{element}>", page, re.DOTALL)
    return " ".join(f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'" for content in contents)
