"""The body of a request, read within limits of size and time, and its fields as pydantic models."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from email import policy
from email.parser import BytesParser
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo
from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from nmt.errors import UserError, print_message, reason
from nmt.settings.arguments import suggestion

MAX_BYTES = 4 << 20  # of a body
BODY_S = 20.0  # for the complete body
FORM = "application/x-www-form-urlencoded"
MOST = 10  # translations of a text
MAX_TEXTS = 100  # of a request


class Refused(HTTPException):
    """A request that is answered with an error: the status, and a message that names value, problem and fix."""


def _require_few(value: str | list[str], info: ValidationInfo) -> str | list[str]:
    texts = [value] if isinstance(value, str) else value
    limit: int | None = info.context
    if len(texts) > MAX_TEXTS:
        raise ValueError(f"{len(texts):,} texts; send at most {MAX_TEXTS:,} at once")
    longest = max(map(len, texts))
    if limit is not None and longest > limit:
        raise ValueError(f"a text of {longest:,} characters; send at most {limit:,}")
    return value


def _read_json(value: Any) -> Any:
    return from_json(value) if isinstance(value, str) else value


ShortText = Annotated[str, Field(max_length=100)]
Text = Annotated[str, AfterValidator(_require_few)]
Texts = Annotated[str | Annotated[list[str], Field(min_length=1)], AfterValidator(_require_few)]
Count = Annotated[int, Field(ge=0, le=MOST)]


class Detect(BaseModel):
    """The fields of /detect. Clients of LibreTranslate may send others."""

    q: Texts
    api_key: str = ""

    @property
    def texts(self) -> list[str]:
        return [self.q] if isinstance(self.q, str) else self.q


class Choice(Detect):
    """The fields that choose a model."""

    source: str | None = None
    target: str | None = None
    model: str | None = None


class Translate(Choice):
    """The fields of /translate. Those of /v1/translate are refused: they would have no effect."""

    format: Literal["text", "html"] = "text"
    alternatives: Count = 0


class Term(BaseModel):
    """A term and its target, which is empty for a term that is kept."""

    model_config = ConfigDict(extra="forbid")
    source: ShortText
    target: ShortText = ""


class TranslateInDetail(Choice):
    """The fields of /v1/translate. Others are refused: a wrong name would have no effect."""

    model_config = ConfigDict(extra="forbid")
    n_best: Count = 1
    alignments: bool = True
    weights: bool = False
    slots: bool = False
    stream: bool = False
    sentences: bool = True
    prefix: Text = ""
    glossary: Annotated[list[Term], Field(max_length=1000), BeforeValidator(_read_json)] = []


Fields = TypeVar("Fields", bound=Detect)


def validate(model: type[Fields], fields: Mapping[str, Any], max_characters: int | None) -> Fields:
    """Return the fields of a request; empty ones count as missing. Raises Refused for the first that is wrong.

    ``max_characters`` is the size that a text may have; None: unlimited.
    """
    given = {name: value for name, value in fields.items() if value not in (None, "")}
    for field in given if model is Translate else ():
        if field in TranslateInDetail.model_fields and field not in Translate.model_fields:
            raise Refused(400, f"{field}: not a field of /translate; send the request to /v1/translate, or remove it")
    try:
        return model.model_validate(given, context=max_characters)
    except ValidationError as invalid:
        error = invalid.errors(include_url=False)[0]
        name, *inner = error["loc"]
        if error["type"] == "extra_forbidden" and not inner:
            raise Refused(400, f"{name:.40}: unknown field{suggestion(str(name), model.model_fields)}") from None
        row = f"[{inner[0]}]" if inner and isinstance(inner[0], int) else ""
        raise Refused(400, f"{name}{row}: {error['msg'].removeprefix('Value error, ')}") from None


def logged(path: str, error: Exception) -> str:
    """Print an error of the server on stderr, and return its answer, which names no file of the server."""
    if isinstance(error, UserError):  # such as in a glossary that was edited while the server runs
        print_message(f"error: {path}: {error}")
        return "the server cannot use one of its files; its log names it"
    print_message(f"error: {path}: internal error: {type(error).__name__}: {reason(error)}")
    return "internal error of the server; its log has the cause"


async def read_fields(request: Request) -> dict[str, Any]:
    """Return the fields of a JSON object, or those of a form and of the query.

    A field of a form that is given several times is a list. Raises Refused if the body is neither, too large or late.
    """
    if (coding := request.headers.get("content-encoding", "identity")) != "identity":
        raise Refused(415, f"Content-Encoding={coding:.40}: not supported; send the body without compression")
    try:
        body = await asyncio.wait_for(_read_body(request), BODY_S)
    except TimeoutError:
        raise Refused(408, f"the body did not arrive within {BODY_S:g} s; send it at once") from None
    except ClientDisconnect:
        raise Refused(400, "the connection ended within the body") from None
    content_type = request.headers.get("content-type", "")
    kind = content_type.partition(";")[0].strip().lower()
    try:
        if kind == "multipart/form-data":
            form = [*_multipart(content_type, body)]
        elif not body or (kind == FORM and not body.lstrip().startswith(b"{")):  # curl -d sends JSON as a form
            form = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=100, errors="strict")
        else:
            fields = from_json(body)
            if not isinstance(fields, dict):
                raise ValueError("not a JSON object")
            return fields
    except ValueError as error:
        raise Refused(400, f"the body cannot be read: {reason(error)}; send JSON in UTF-8, or a form") from None
    fields = {}
    for name, value in [*request.query_params.multi_items(), *form]:
        fields.setdefault(name, []).append(value)
    return {name: values if len(values) > 1 else values[0] for name, values in fields.items()}


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
