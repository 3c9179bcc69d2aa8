"""The routes of the server: its page, LibreTranslate's interface, our own, health and metrics."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nmt.documents import Segments, split_text, visible_text
from nmt.errors import UserError, print_message
from nmt.inference.bulk import Failure
from nmt.inference.translation import LostTexts, Translation
from nmt.search.options import SearchOptions
from nmt.server.answers import CUT, MAX_WEIGHTS, Details, properties_of, require_few_weights, slots_problem
from nmt.server.connections import LoopErrors
from nmt.server.fields import (
    MAX_TEXTS,
    MOST,
    Choice,
    Detect,
    Fields,
    Refused,
    Term,
    Translate,
    TranslateInDetail,
    logged,
    read_fields,
    validate,
)
from nmt.server.models import ServedModel, Work
from nmt.server.page import translation_page
from nmt.server.streams import EventStream
from nmt.text.glossary import combined_glossary

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

LOOPBACK = ("localhost", "127.0.0.1", "::1")
POLL_S = 0.5  # between two checks whether the client is still there

Handler = Callable[[Request], Awaitable[Response]]
LanguagePair = tuple[str, str]  # codes of source and target language


class Languages(NamedTuple):
    """The models of each (source, target) by name, and how they translate unless a request says otherwise."""

    models: Mapping[LanguagePair, Mapping[str, ServedModel]]
    options: SearchOptions

    @property
    def all_models(self) -> list[ServedModel]:
        return [model for of_pair in self.models.values() for model in of_pair.values()]

    @property
    def sources(self) -> list[str]:
        return list(dict.fromkeys(source for source, _ in self.models))

    def targets(self, source: str) -> list[str]:
        return [target for other, target in self.models if other == source]

    def model(self, source: str, target: str, name: str | None) -> ServedModel:
        """Return the model of a pair with this name; None: its first. Raises Refused for another pair or name."""
        models = self.models.get((source, target))
        if models is None:
            pairs = ", ".join(" to ".join(pair) for pair in self.models)
            raise Refused(400, f"{source} to {target}: not supported; this server translates {pairs}")
        name = name or next(iter(models))
        if name not in models:
            raise Refused(400, f"model={name}: unknown for {source} to {target}; choose from {', '.join(models)}")
        return models[name]


@dataclass(eq=False, kw_only=True)
class Server:
    """Answers requests with the models of ``languages``.

    ``keys`` are the accepted API keys; if it is empty, requests need no key. ``hosts`` are the names of the server
    besides ``LOOPBACK``: ``*`` allows all, and an address of all interfaces allows all IP addresses. A request ends
    after ``timeout_s``.
    """

    languages: Languages
    max_characters: int | None = None  # of a text
    keys: Sequence[str] = ()
    origins: Sequence[str] = ()
    hosts: Sequence[str] = ()
    timeout_s: float = 60.0
    metrics: CollectorRegistry = field(default_factory=CollectorRegistry, init=False)

    def __post_init__(self) -> None:
        self.seconds = Histogram(
            "nmt_request_seconds", "Seconds from request to answer.", ["path", "status"], registry=self.metrics
        )
        self.metrics.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the models, for Prometheus."""
        models = self.languages.all_models
        waiting, translated = (sum(getattr(model, name) for model in models) for name in ("waiting", "translated"))
        yield GaugeMetricFamily("nmt_waiting_lines", "Lines that wait for translation.", waiting)
        yield CounterMetricFamily("nmt_translated_lines", "Lines since the start.", translated)
        info = InfoMetricFamily(
            "nmt_model", "Models, and the fingerprint of each.", labels=["source", "target", "name"]
        )
        for (source, target), of_pair in self.languages.models.items():
            for name, model in of_pair.items():
                info.add_metric([source, target, name], {"version": model.version})
        yield info

    def app(self) -> Starlette:
        """Return the ASGI application."""
        handlers: list[tuple[str, str, Handler]] = [
            ("POST", "/translate", self.translate),
            ("POST", "/detect", self.detect),
            ("POST", "/v1/translate", self.translate_in_detail),
            ("GET", "/", self.page),
            ("GET", "/v1/models", self.list_models),
            ("GET", "/languages", self.list_languages),
            ("GET", "/health", self.health),
            ("GET", "/frontend/settings", self.frontend_settings),
            ("GET", "/metrics", self.show_metrics),
        ]
        cors = Middleware(
            CORSMiddleware,
            allow_origins=[origin.rstrip("/") for origin in self.origins],  # browsers send it without
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["Retry-After"],
        )
        return Starlette(
            routes=[Route(path, self.answering(path, handler), methods=[method]) for method, path, handler in handlers],
            middleware=[cors] if self.origins else [],
            lifespan=self.lifespan,
            exception_handlers={HTTPException: _answer_error},
        )

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """End the threads of the models after the server: Python aborts at its end if a thread is in a library."""
        asyncio.get_running_loop().set_exception_handler(LoopErrors())
        yield
        for model in self.languages.all_models:
            model.close()

    def answering(self, path: str, handler: Handler) -> Handler:
        """Return a handler that turns exceptions into error answers, and records each request of ``path``."""

        async def answer(request: Request) -> Response:
            started = time.perf_counter()
            try:
                self.require_known_host(request)
                response = await handler(request)
            except HTTPException as error:
                response = await _answer_error(request, error)
            except Exception as error:
                response = JSONResponse({"error": logged(path, error)}, 500)

            def record() -> None:
                elapsed = time.perf_counter() - started
                self.seconds.labels(path, response.status_code).observe(elapsed)
                print_message(f"{request.method} {path} {response.status_code} {elapsed:.3f} s")

            if isinstance(response, EventStream):
                response.on_end = record
            else:
                record()
            return response

        return answer

    def require_known_host(self, request: Request) -> None:
        """Raise Refused if the request names a foreign host.

        A web page may point its own name to this server. A browser then lets that page read the answers.
        """
        header = request.headers.get("host", "")
        name = host_name(header)
        known = [host_name(host) for host in (*LOOPBACK, *self.hosts)]
        any_address = "0.0.0.0" in known or "::" in known
        if not header or name in known or "*" in known or (any_address and is_address(name)):
            return
        raise Refused(400, f"Host={header:.100}: not a name of this server; add it to hosts=, or use another address")

    async def fields(self, request: Request, model: type[Fields]) -> Fields:
        """Return the fields of a request. Raises Refused without a valid key, where keys are needed."""
        fields = await read_fields(request)
        if self.keys:
            bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
            key = str(fields.get("api_key") or bearer).encode()
            if not any([hmac.compare_digest(key, known.encode()) for known in self.keys]):
                raise Refused(403, "api_key: missing or unknown; send a key of this server")
        return validate(model, fields, self.max_characters)

    async def wait_for(self, future: Future[Any], request: Request) -> Any:
        """Return the result of a future. Raises Refused if the client disconnects, or if it takes too long."""
        waited = asyncio.wrap_future(future)
        end = time.monotonic() + self.timeout_s
        try:
            while not (await asyncio.wait({waited}, timeout=POLL_S))[0]:
                if await request.is_disconnected():
                    raise Refused(499, "the client has closed the connection")
                if time.monotonic() > end:
                    raise Refused(503, f"not finished within {self.timeout_s:g} s; send less text at once")
            return waited.result()
        except asyncio.CancelledError:
            raise Refused(503, "the server stops; send the request again later") from None
        finally:
            future.cancel()

    async def identified(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        """Return the source languages of the models as LibreTranslate lists them, the likeliest first.

        Tags of HTML are English, so they do not count.
        """
        sources = self.languages.sources
        if len(sources) == 1:  # nothing to compare the text with
            return [{"language": sources[0], "confidence": 0.0}]
        try:
            # In a thread: its model takes a second to load, and a long text takes longer than others should wait.
            shares = await asyncio.to_thread(lambda: identify(" ".join(map(visible_text, texts)), sources))
        except ImportError:
            fix = "name the source language, or ask the operator to install py3langid"
            raise Refused(400, f"source=auto: this server cannot identify languages; {fix}") from None
        except KeyError as error:
            raise Refused(400, f"source=auto: {error.args[0]} cannot be identified; name the source language") from None
        return [{"language": code, "confidence": round(100 * share, 1)} for code, share in shares]

    async def pair_of(self, fields: Choice, lines: Sequence[str]) -> tuple[LanguagePair, dict[str, Any] | None]:
        """Return the languages of a request, and the identified one if the request asks for it."""
        sources = self.languages.sources
        source = fields.source or ("auto" if len(sources) > 1 else sources[0])
        detected = None
        if source == "auto":
            detected = (await self.identified(lines))[0]
            source = detected["language"]
        target = fields.target
        if target is None:
            targets = self.languages.targets(source)
            if len(targets) != 1:
                raise Refused(400, "target: missing; send the code of a language, which /languages lists")
            [target] = targets
        return (source, target), detected

    async def translations(self, request: Request, model: ServedModel, lines: Sequence[str], work: Work) -> list[Any]:
        """Return the translation of each line."""
        results = await self.wait_for(model.submit(lines, work), request) if lines else []
        for line, result in zip(lines, results, strict=True):
            if isinstance(result, Failure):
                raise Refused(400, f"q: {line[:40]!r}…: {result.reason}")
        return list(results)

    async def translate(self, request: Request) -> Response:
        """Translate a text or a list of texts, as LibreTranslate does."""
        fields = await self.fields(request, Translate)
        segments = [split_text(text, fields.format) for text in fields.texts]
        lines = [line for part in segments for line in part.lines]
        (source, target), detected = await self.pair_of(fields, lines)
        if source == target and source in self.languages.sources:  # LibreTranslate returns such texts, too
            results = [Translation(line) for line in lines]
        else:
            model = self.languages.model(source, target, fields.model)
            if fields.format == "html" and not model.translator.attention.reads_source:
                raise Refused(400, "format=html: the model has no attention, which places tags; send format=text")
            options = self.languages.options.with_best(fields.alternatives + 1)
            results = await self.translations(request, model, lines, Work(options, markup=fields.format == "html"))
        in_order = iter(results)
        parts = [(part, [next(in_order) for _ in part.indices]) for part in segments]
        count = fields.alternatives if fields.format == "text" else 0
        filled = [best_texts(part, of_text, 1 + count) for part, of_text in parts]
        answer: dict[str, Any] = {"translatedText": [texts[0] for texts in filled]}
        if fields.alternatives:
            answer["alternatives"] = [texts[1:] for texts in filled]
        if detected is not None:
            answer["detectedLanguage"] = [detected] * len(parts)
        if isinstance(fields.q, str):
            answer = {key: of_text for key, (of_text,) in answer.items()}
        warnings = [f"q[{row}]: {CUT}" for row, (_, of_text) in enumerate(parts) if any(it.is_cut for it in of_text)]
        lost = LostTexts("text")
        for row, (_, of_text) in enumerate(parts):
            lost.add(row, [text for best in of_text for text in best.lost])
        if warnings := warnings + [problem for problem in [lost.problem] if problem]:
            answer["warnings"] = warnings
        return JSONResponse(answer)

    async def translate_in_detail(self, request: Request) -> Response:
        """Translate lines, with scores, tokens, words, links, weights and slots."""
        fields = await self.fields(request, TranslateInDetail)
        texts, prefix = fields.texts, fields.prefix
        details = Details(max(1, fields.n_best), fields.alignments, fields.weights, fields.slots)
        require_few_weights(texts, details)
        pair, detected = await self.pair_of(fields, texts)
        model = self.languages.model(*pair, fields.model)
        if fields.slots and (problem := slots_problem(model.translator)):
            raise Refused(400, f"slots: {problem}; remove slots, or use another model")
        terms = terms_of(fields.glossary)
        if terms and not model.translator.attention.reads_source:
            raise Refused(400, "glossary: the model has no attention, which places terms; remove glossary")
        options = self.languages.options.with_best(details.n_best)
        if prefix or not fields.sentences:
            options = replace(options, sentences=None)
        work = Work(replace(options, terms=terms or None), details, prefix=prefix)
        if prefix:
            if work.options.rewrites:
                raise Refused(400, "prefix: terms and placeholders may change its words; remove prefix or glossary")
            try:
                model.translator.read_prefixes([prefix], work.options)
            except UserError as error:
                raise Refused(400, str(error).replace("prefixes[0]", "prefix", 1)) from None
        last = {} if detected is None else {"detected": detected}
        if fields.stream:
            return EventStream(model, texts, work, timeout_s=self.timeout_s, last=last)
        return JSONResponse({"translations": await self.translations(request, model, texts, work), **last})

    async def detect(self, request: Request) -> Response:
        """List the languages that a text may be in."""
        fields = await self.fields(request, Detect)
        return JSONResponse(await self.identified(fields.texts))

    async def list_languages(self, _: Request) -> Response:
        """List the languages, and the targets of each."""
        languages = self.languages
        codes = list(dict.fromkeys([*languages.sources, *(target for _, target in languages.models)]))
        return JSONResponse([{"code": code, "name": code, "targets": languages.targets(code)} for code in codes])

    async def list_models(self, _: Request) -> Response:
        """List the models, and the sizes that a request may have."""
        models = [
            {"name": name, "source": source, "target": target, **properties_of(model.translator)}
            for (source, target), of_pair in self.languages.models.items()
            for name, model in of_pair.items()
        ]
        limits = {
            "characters": self.max_characters,
            "texts": min(MAX_TEXTS, *(model.max_waiting for model in self.languages.all_models)),
            "n_best": MOST,
            "weights": MAX_WEIGHTS,
        }
        return JSONResponse({"models": models, "limits": limits, "key_required": bool(self.keys)})

    async def page(self, _: Request) -> Response:
        """Show the page."""
        return translation_page()

    async def health(self, _: Request) -> Response:
        """Show that the server runs."""
        return JSONResponse({"status": "ok"})

    async def frontend_settings(self, _: Request) -> Response:
        """Show the settings for LibreTranslate's clients."""
        source, target = next(iter(self.languages.models))
        limit = self.max_characters
        return JSONResponse(
            {
                "apiKeys": bool(self.keys),
                "keyRequired": bool(self.keys),
                "charLimit": -1 if limit is None else limit,
                "frontendTimeout": 500,
                "suggestions": False,
                "filesTranslation": False,
                "supportedFilesFormat": [],
                "language": {"source": {"code": source, "name": source}, "target": {"code": target, "name": target}},
            }
        )

    async def show_metrics(self, _: Request) -> Response:
        """Show metrics for Prometheus."""
        return Response(generate_latest(self.metrics), media_type=CONTENT_TYPE_LATEST)


def host_name(host: str) -> str:
    """Return the name or address of a host, without its port."""
    match = re.fullmatch(r"\[([^]]*)\](?::\d*)?|([^:]*)(?::\d*)?", host)
    return (match[1] or match[2] or "").lower() if match else host.lower()


def is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def terms_of(glossary: Sequence[Term]) -> dict[str, str]:
    """Return the targets by their terms. Raises Refused for a term with two targets, or that nothing can match."""
    terms = {term.source: term.target for term in glossary}
    try:
        combined_glossary(None, terms)
    except UserError as error:
        raise Refused(400, f"glossary: {error}") from None
    for term in glossary:
        if terms[term.source] != term.target:
            raise Refused(400, f"glossary: {term.source!r} has two targets; keep one of them")
    return terms


def best_texts(segments: Segments, translations: Sequence[Translation], count: int) -> list[str]:
    """Return up to ``count`` different translations of a text: the n-th joins the n-th translations of its lines."""
    lists = [best.n_best or [best] for best in translations]
    of_ranks = ([best[min(rank, len(best) - 1)].text for best in lists] for rank in range(count))
    return list(dict.fromkeys(map(segments.fill, of_ranks)))


async def _answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def identify(text: str, languages: Sequence[str]) -> list[tuple[str, float]]:
    """Return the probability of each of these languages, if the text is in one of them, the likeliest first.

    Lui & Baldwin (2012), langid.py: An Off-the-shelf Language Identification Tool. Raises KeyError for a language that
    py3langid does not know, and ImportError without it.
    """
    probabilities = dict(_identifier().rank(text))
    chosen = {language: float(probabilities[language]) for language in languages}
    total = sum(chosen.values()) or 1.0
    return sorted(((language, share / total) for language, share in chosen.items()), key=lambda item: -item[1])


@cache
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
