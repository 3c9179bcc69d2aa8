"""The description of the server's interface in OpenAPI 3.1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nmt.server.reading import FORM, Limits
from nmt.version import __version__

Schema = dict[str, Any]


def _object(required: str = "", /, **properties: Schema) -> Schema:
    """Return the schema of an object; ``required`` names its necessary properties."""
    return {"type": "object", "properties": properties, **({"required": required.split()} if required else {})}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TEXTS: Schema = {"oneOf": [TEXT, _list(TEXT)]}
LINKS = _list({"type": "array", "items": COUNT, "minItems": 2, "maxItems": 2})
DETECTED = _object(language=TEXT, confidence={"type": "number", "minimum": 0, "maximum": 100})
SCORE = {"type": ["number", "null"]}
DETAILS = {"text": TEXT, "score": SCORE, "log_prob": SCORE, "source_tokens": _list(TEXT), "tokens": _list(TEXT)}
WORDS = {"source_words": _list({"type": "integer"}), "target_words": _list({"type": "integer"}), "links": LINKS}
DETAILED = _object("text score log_prob", **DETAILS, **WORDS, n_best=_list(_object(**DETAILS, **WORDS)))
ERROR = _object("error", error=TEXT)
ERRORS = {
    "400": "A field is missing or has a wrong value.",
    "403": "The API key is missing or unknown.",
    "408": "The body arrived too slowly.",
    "413": "The body is too large.",
    "429": "Too many requests, or too many lines wait.",
    "503": "The translation took too long, or the server stops.",
}


def _answer(about: str, schema: Schema) -> Schema:
    return {"description": about, "content": {"application/json": {"schema": schema}}}


def _post(summary: str, body: Schema, answer: Schema) -> Schema:
    one_text = body["properties"]["q"].get("oneOf", [body["properties"]["q"]])[0]
    form = {**body, "properties": {**body["properties"], "q": one_text}}
    content = {"application/json": {"schema": body}, FORM: {"schema": form}}
    responses = {"200": _answer("The answer.", answer)}
    responses |= {status: _answer(about, ERROR) for status, about in ERRORS.items()}
    return {"post": {"summary": summary, "requestBody": {"required": True, "content": content}, "responses": responses}}


def _get(summary: str, answer: Schema) -> Schema:
    return {"get": {"summary": summary, "responses": {"200": _answer("The answer.", answer)}}}


def describe(sources: Sequence[str], targets: Sequence[str], limits: Limits) -> Schema:
    """Return the description for a server with these languages and limits."""
    text: Schema = {"type": "string", "minLength": 1}
    if limits.max_characters is not None:
        text["maxLength"] = limits.max_characters
    texts = {"oneOf": [text, {**_list({**text, "minLength": 0}), "minItems": 1, "maxItems": limits.max_texts}]}
    languages = {
        "source": {"type": "string", "enum": [*sources, "auto"]},
        "target": {"type": "string", "enum": [*targets]},
        "api_key": {},  # anything where no keys are needed
    }
    others = {**COUNT, "maximum": limits.max_alternatives}
    best = {**COUNT, "maximum": limits.max_alternatives + 1}
    form = {"type": "string", "enum": ["text", "html"]}
    pairs = _object("q translations", q=text, translations=text, **languages)
    return {
        "openapi": "3.1.0",
        "info": {"title": "nmt-serve", "version": __version__, "description": "LibreTranslate's interface and /v1."},
        "paths": {
            "/translate": _post(
                "Translate a text or a list of texts, as LibreTranslate does.",
                _object("q", q=texts, format=form, alternatives=others, **languages),
                _object(
                    "translatedText",
                    translatedText=TEXTS,
                    alternatives=_list({"oneOf": [TEXT, _list(TEXT)]}),
                    detectedLanguage={"oneOf": [DETECTED, _list(DETECTED)]},
                ),
            ),
            "/detect": _post("Identify the language of a text.", _object("q", q=text, api_key={}), _list(DETECTED)),
            "/v1/translate": _post(
                "Translate lines, with scores, tokens, words and links.",
                _object("q", q=texts, n_best=best, alignments={"type": "boolean"}, **languages),
                _object("translations", translations=_list(DETAILED), detected=DETECTED),
            ),
            "/v1/score": _post(
                "Score a translation, or a list of them.", pairs, _object("log_probs", log_probs=_list(NUMBER))
            ),
            "/v1/align": _post("Align a translation, or a list of them.", pairs, _object("links", links=_list(LINKS))),
            "/languages": _get("List languages.", _list(_object(code=TEXT, name=TEXT, targets=_list(TEXT)))),
            "/health": _get("Tell that the server runs.", _object(status=TEXT)),
            "/frontend/settings": _get("Settings for LibreTranslate's clients.", {"type": "object"}),
            "/openapi.json": _get("This description.", {"type": "object"}),
            "/metrics": {"get": {"summary": "Metrics for Prometheus.", "responses": {"200": {"description": "Text."}}}},
        },
    }
