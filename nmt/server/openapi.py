"""The description of the server's interface in OpenAPI 3.1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nmt.server.reading import FORM, MAX_TERM, MAX_TERMS, Limits
from nmt.version import __version__

Schema = dict[str, Any]


def _object(required: str = "", /, **properties: Schema) -> Schema:
    """Return the schema of an object; ``required`` names its required properties, with spaces between them."""
    return {"type": "object", "properties": properties, **({"required": required.split()} if required else {})}


def _body(required: str = "", /, **properties: Schema) -> Schema:
    """Return the schema of a request that may have these properties only."""
    return {**_object(required, **properties), "additionalProperties": False}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TEXTS: Schema = {"oneOf": [TEXT, _list(TEXT)]}
LINKS = _list({"type": "array", "items": COUNT, "minItems": 2, "maxItems": 2})
DETECTED = _object(language=TEXT, confidence={"type": "number", "minimum": 0, "maximum": 100})
SCORE = {"type": ["number", "null"]}
DETAILS = {
    "text": TEXT,
    "score": SCORE,
    "log_prob": SCORE,
    "confidence": NUMBER,
    "source_tokens": _list(TEXT),
    "tokens": _list(TEXT),
    "cut": {"type": "boolean"},
}
WORDS = {
    "source_words": _list({"type": "integer"}),
    "target_words": _list({"type": "integer"}),
    "word_confidences": _list(SCORE),
    "links": LINKS,
}
MATRIX = _list(_list(NUMBER))
WEIGHTS = _object("source target values", source=_list(TEXT), target=_list(TEXT), values=MATRIX)
SLOTS = _object("source target", source=MATRIX, target=MATRIX)
BEST = {**DETAILS, **WORDS, "weights": WEIGHTS, "slots": SLOTS}
DETAILED = _object("text score log_prob confidence", **BEST, n_best=_list(_object(**BEST)))
EVENT = _object("event data", event={"enum": ["translation", "error", "done"]}, data=TEXT)
BOOLEAN = {"type": "boolean"}
MODEL = _object(
    "name source target attention alignments slots memories",
    **dict.fromkeys(("name", "source", "target", "attention"), TEXT),
    **dict.fromkeys(("alignments", "slots", "memories"), BOOLEAN),
)
REQUEST_LIMITS = _object(characters={"type": ["integer", "null"]}, texts=COUNT, n_best=COUNT, weights=COUNT)
SHORT_TEXT: Schema = {"type": "string", "maxLength": MAX_TERM}
TERM = _object("source", source={**SHORT_TEXT, "pattern": r"[^\s*]"}, target=SHORT_TEXT)
GLOSSARY = {**_list({**TERM, "additionalProperties": False}), "maxItems": MAX_TERMS}
ERROR = _object("error", error=TEXT)
ERRORS = {
    "400": "A field is missing or has a wrong value.",
    "403": "The API key is missing or unknown.",
    "404": "The memory is not stored.",
    "408": "The body arrived too slowly.",
    "413": "The body is too large.",
    "415": "The body is compressed.",
    "429": "Too many requests, or too many lines wait.",
    "503": "The translation took too long, or the server stops.",
}


def _answer(description: str, schema: Schema) -> Schema:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _responses(answer: Schema) -> Schema:
    return {"200": _answer("The answer.", answer)} | {status: _answer(why, ERROR) for status, why in ERRORS.items()}


def _post(summary: str, body: Schema, answer: Schema) -> Schema:
    one_text = body["properties"]["q"].get("oneOf", [body["properties"]["q"]])[0]
    form = {**body, "properties": {**body["properties"], "q": one_text}}
    content = {"application/json": {"schema": body}, FORM: {"schema": form}}
    request = {"required": True, "content": content}
    return {"post": {"summary": summary, "requestBody": request, "responses": _responses(answer)}}


def _get(summary: str, answer: Schema) -> Schema:
    return {"get": {"summary": summary, "responses": {"200": _answer("The answer.", answer)}}}


def _or_memory(body: Schema) -> Schema:
    """Return the schema of a request that names a stored memory, or has a text, languages and a model."""
    absent = dict.fromkeys(("q", "source", "target", "model"), False)
    off: Schema = dict.fromkeys(("stream", "weights", "slots", "sentences"), {"const": False})
    off |= {"glossary": {"maxItems": 0}}
    either = {"anyOf": [{"required": ["q"]}, {"required": ["memory"]}]}
    properties = {**body["properties"], "memory": {"type": "string", "minLength": 1}}
    return {**body, "properties": properties, **either, "dependentSchemas": {"memory": {"properties": absent | off}}}


def describe(sources: Sequence[str], targets: Sequence[str], models: Sequence[str], limits: Limits) -> Schema:
    """Return the description for a server with these languages, models and limits."""
    text: Schema = {"type": "string", "minLength": 1}
    if limits.max_characters is not None:
        text["maxLength"] = limits.max_characters
    texts = {"oneOf": [text, {**_list({**text, "minLength": 0}), "minItems": 1, "maxItems": limits.max_texts}]}
    languages = {
        "source": {"type": "string", "enum": [*sources, "auto"]},
        "target": {"type": "string", "enum": [*targets]},
        "api_key": {},  # anything where no keys are needed
    }
    own = {**languages, "model": {"type": "string", "enum": [*models]}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "nmt-serve", "version": __version__, "description": "LibreTranslate's interface and /v1."},
        "paths": _libretranslate(text, texts, languages, limits) | _own(text, texts, own, limits) | OTHERS,
    }


def _libretranslate(text: Schema, texts: Schema, languages: Schema, limits: Limits) -> Schema:
    form = {"type": "string", "enum": ["text", "html"]}
    others = {**COUNT, "maximum": limits.max_alternatives}
    return {
        "/translate": _post(
            "Translate a text or a list of texts, as LibreTranslate does.",
            _object("q", q=texts, format=form, alternatives=others, **languages),
            _object(
                "translatedText",
                translatedText=TEXTS,
                alternatives=_list({"oneOf": [TEXT, _list(TEXT)]}),
                detectedLanguage={"oneOf": [DETECTED, _list(DETECTED)]},
                warnings=_list(TEXT),
            ),
        ),
        "/detect": _post("Identify the language of a text.", _object("q", q=text, api_key={}), _list(DETECTED)),
        "/languages": _get("List languages.", _list(_object(code=TEXT, name=TEXT, targets=_list(TEXT)))),
        "/health": _get("Check that the server runs.", _object(status=TEXT)),
        "/frontend/settings": _get("Settings for LibreTranslate's clients.", {"type": "object"}),
    }


def _own(text: Schema, texts: Schema, languages: Schema, limits: Limits) -> Schema:
    best = {**COUNT, "maximum": limits.max_alternatives + 1}
    options = {
        "n_best": best,
        "prefix": text,
        "glossary": GLOSSARY,
        **dict.fromkeys(("alignments", "weights", "slots", "stream", "sentences"), BOOLEAN),
    }
    pairs = {"q": text, "translations": text, **languages}
    translate = _post(
        "Translate lines, with scores, tokens, words, links, weights and slots.",
        _or_memory(_body(q=texts, **options, **languages)),
        _object("translations", translations=_list(DETAILED), detected=DETECTED),
    )
    translate["post"]["responses"]["200"]["content"]["text/event-stream"] = {"schema": EVENT}
    return {
        "/v1/translate": translate,
        "/v1/score": _post(
            "Score a translation, or a list of them.",
            _or_memory(_body("translations", **pairs)),
            _object("log_probs", log_probs=_list(NUMBER)),
        ),
        "/v1/align": _post(
            "Align a translation, or a list of them.",
            _body("q translations", **pairs),
            _object("links", links=_list(LINKS)),
        ),
        "/v1/memories": _post(
            "Encode a text or a list of texts, and store their memories.",
            _body("q", q=texts, alignments=BOOLEAN, **languages),
            _object("id texts bytes minutes", id=TEXT, texts=COUNT, bytes=COUNT, minutes=NUMBER, detected=DETECTED),
        ),
    }


ANY_LIMITS = Limits(max_characters=None, max_texts=1, max_alternatives=0)
OWN_FIELDS = {
    path: [*methods["post"]["requestBody"]["content"][FORM]["schema"]["properties"]]
    for path, methods in _own({}, {}, dict.fromkeys(("source", "target", "api_key", "model"), {}), ANY_LIMITS).items()
}
"""The fields of a request to each path below /v1. Others are refused: a wrong name would have no effect."""

OTHERS: Schema = {
    "/v1/memories/{memory}": {
        "delete": {
            "summary": "Drop a stored memory.",
            "parameters": [{"name": "memory", "in": "path", "required": True, "schema": TEXT}],
            "responses": _responses(_object(status=TEXT)),
        }
    },
    "/v1/models": _get(
        "List the models, and the sizes that a request may have.",
        _object("models limits", models=_list(MODEL), limits=REQUEST_LIMITS, key_required=BOOLEAN),
    ),
    "/": {
        "get": {
            "summary": "The page.",
            "responses": {"200": {"description": "HTML.", "content": {"text/html": {"schema": TEXT}}}},
        }
    },
    "/openapi.json": _get("This description.", {"type": "object"}),
    "/metrics": {"get": {"summary": "Metrics for Prometheus.", "responses": {"200": {"description": "Text."}}}},
}
