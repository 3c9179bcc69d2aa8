"""The fields of requests as pydantic models, which read JSON and the texts of a form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo
from pydantic_core import from_json

from nmt.server.reading import Refused
from nmt.settings.arguments import suggestion

MOST = 10  # translations of a text


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Sizes that a request may have; None: unlimited."""

    max_characters: int | None  # of a text
    max_texts: int


def _require_few(value: str | list[str], info: ValidationInfo) -> str | list[str]:
    texts = [value] if isinstance(value, str) else value
    limits = info.context
    assert isinstance(limits, Limits)
    if len(texts) > limits.max_texts:
        raise ValueError(f"{len(texts):,} texts; send at most {limits.max_texts:,} at once")
    longest = max(map(len, texts))
    if limits.max_characters is not None and longest > limits.max_characters:
        raise ValueError(f"a text of {longest:,} characters; send at most {limits.max_characters:,}")
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
    """The fields of /translate."""

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


def validate(model: type[Fields], fields: Mapping[str, Any], limits: Limits) -> Fields:
    """Return the fields of a request; empty ones count as missing. Raises Refused for the first that is wrong."""
    given = {name: value for name, value in fields.items() if value not in (None, "")}
    try:
        return model.model_validate(given, context=limits)
    except ValidationError as invalid:
        error = invalid.errors(include_url=False)[0]
        name, *inner = error["loc"]
        if error["type"] == "extra_forbidden" and not inner:
            raise Refused(400, f"{name:.40}: unknown field{suggestion(str(name), model.model_fields)}") from None
        row = f"[{inner[0]}]" if inner and isinstance(inner[0], int) else ""
        raise Refused(400, f"{name}{row}: {error['msg'].removeprefix('Value error, ')}") from None
