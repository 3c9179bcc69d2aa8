"""The body of a request, read within limits of size and time, and its fields."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email import policy
from email.parser import BytesParser
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from nmt.errors import UserError, counted, print_message, reason
from nmt.text.glossary import combined_glossary

MAX_BYTES = 4 << 20  # of a body
MAX_TERMS = 1000  # of the glossary of a request
MAX_TERM = 100  # characters of a term, and of its target
BODY_S = 20.0  # for the complete body
FORM = "application/x-www-form-urlencoded"


class Refused(Exception):
    """A request that is answered with an error: the status, and a message that names value, problem and fix."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def logged(path: str, error: Exception) -> str:
    """Print an error of the server on stderr, and return its answer, which names no file of the server."""
    if isinstance(error, UserError):  # such as in a glossary that was edited while the server runs
        print_message(f"error: {path}: {error}")
        return "the server cannot use one of its files; its log names it"
    print_message(f"error: {path}: internal error: {type(error).__name__}: {reason(error)}")
    return "internal error of the server; its log has the cause"


async def read_fields(request: Request) -> dict[str, Any]:
    """Return the fields of a JSON object, or those of a form and of the query.

    Raises Refused if the body is neither, too large or too slow.
    """
    if (coding := request.headers.get("content-encoding", "identity")) != "identity":
        raise Refused(415, f"Content-Encoding={coding:.40}: not supported; send the body without compression")
    try:
        body = await asyncio.wait_for(_read_body(request), BODY_S)
    except TimeoutError:
        raise Refused(408, f"the body did not arrive within {BODY_S:g} s; send it at once") from None
    except ClientDisconnect:
        raise Refused(400, "the connection ended within the body") from None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if not body or (kind == FORM and not body.lstrip().startswith(b"{")):  # curl -d sends JSON as a form
            form = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=100, errors="strict")
            return _unique(request.query_params.multi_items()) | _unique(form)
        if kind == "multipart/form-data":
            form = [*_multipart(request.headers["content-type"], body)]
            return _unique(request.query_params.multi_items()) | _unique(form)
        fields = json.loads(body, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body cannot be read: {reason(error)}; send JSON in UTF-8, or a form") from None
    if not isinstance(fields, dict):
        raise Refused(400, 'the body is not a JSON object; send {"q": …, "source": …, "target": …}')
    return fields


def _unique(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields. Raises Refused for one that is given twice, because one of its values would be lost."""
    fields = dict(items)
    if len(fields) < len(items):
        [(name, _)] = Counter(name for name, _ in items).most_common(1)
        raise Refused(400, f"{name}: given more than once; send it once (several texts are a list in JSON)")
    return fields


async def _read_body(request: Request) -> bytes:
    too_large = Refused(413, f"the body is larger than {MAX_BYTES:,} bytes; send less text at once")
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > MAX_BYTES:
        raise too_large
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BYTES:
            raise too_large
    return bytes(body)


def _multipart(content_type: str, body: bytes) -> Iterator[tuple[str, str]]:
    """Yield the text fields of a form in the format of RFC 7578."""
    message = BytesParser(policy=policy.HTTP).parsebytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body)
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(content, bytes):
            yield name, content.decode()


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Sizes that a request may have; None: unlimited."""

    max_characters: int | None  # of a text
    max_texts: int
    max_alternatives: int


def texts_of(fields: Mapping[str, Any], limits: Limits, key: str = "q") -> list[str]:
    """Return the texts of a field: one, or a list. Raises Refused for no texts, and for too many or long."""
    value = fields.get(key)
    texts = [value] if isinstance(value, str) else value
    if value is None or value == "" or value == []:
        raise Refused(400, f"{key}: missing; give a text or a list of texts")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise Refused(400, f"{key}: not a text or a list of texts")
    if len(texts) > limits.max_texts:
        raise Refused(400, f"{key}: {counted(len(texts), 'text')}; send at most {limits.max_texts:,} at once")
    for text in texts:
        if limits.max_characters is not None and len(text) > limits.max_characters:
            raise Refused(400, f"{key}: a text of {len(text):,} characters; send at most {limits.max_characters:,}")
        require_unicode(text, key)
    return texts


def require_unicode(text: str, key: str) -> None:
    """Raise Refused if a text has a lone surrogate, which JSON can spell and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Refused(400, f"{key}: has a lone surrogate, which is not a character; send valid Unicode") from None


def terms_of(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the field ``glossary``: a list of terms with ``source`` and ``target``, which a form sends as JSON.

    A term without a target is kept. Raises Refused for another form, and for too many or too long terms.
    """
    value = [] if fields.get("glossary") in (None, "") else fields["glossary"]
    try:
        entries = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        entries = None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise Refused(400, 'glossary: not a list of terms; send [{"source": …, "target": …}]')
    if len(entries) > MAX_TERMS:
        raise Refused(400, f"glossary: {counted(len(entries), 'term')}; send at most {MAX_TERMS:,}")
    terms: dict[str, str] = {}
    for row, entry in enumerate(entries):
        where = f"glossary[{row}]"
        if unknown := entry.keys() - {"source", "target"}:
            raise Refused(400, f"{where}: {min(unknown):.40}: unknown; give source and target")
        source = entry.get("source")
        target = entry.get("target", "")
        for text in (source, target):
            if not isinstance(text, str):
                raise Refused(400, f"{where}: source or target is not a text")
            if len(text) > MAX_TERM:
                raise Refused(400, f"{where}: longer than {MAX_TERM} characters; shorten it")
            require_unicode(text, where)
        if terms.setdefault(source, target) != target:
            raise Refused(400, f"{where}: {source!r} has another target above; keep one of them")
    try:
        combined_glossary(None, terms)
    except UserError as error:
        raise Refused(400, str(error).replace("terms", "glossary", 1)) from None
    return terms


def text_of(fields: Mapping[str, Any], key: str, default: str | None = None) -> str:
    """Return a text field. Raises Refused if it is missing and has no default, or is not a text."""
    value = fields.get(key, default)
    if value is None or value == "":
        raise Refused(400, f"{key}: missing; send a text")
    if not isinstance(value, str):
        raise Refused(400, f"{key}: not a text; send a string")
    return value


def bool_of(fields: Mapping[str, Any], key: str, *, default: bool = False) -> bool:
    """Return true or false, which a form sends as text."""
    value = fields.get(key, default)
    value = {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
    if not isinstance(value, bool):
        raise Refused(400, f"{key}: must be true or false")
    return value


def number_of(fields: Mapping[str, Any], key: str, *, maximum: int) -> int:
    """Return a whole number from 0 to ``maximum``, which a form sends as text; 0 if it is missing."""
    value = fields.get(key, 0)
    try:
        is_float = isinstance(value, float) and value.is_integer()  # JSON may write 2.0
        number = int(value) if is_float or isinstance(value, str) else value
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise ValueError
    except ValueError:
        raise Refused(400, f"{key}: not a whole number from 0 to {maximum}") from None
    if number > maximum:
        raise Refused(400, f"{key}={number}: must be at most {maximum}")
    return number
