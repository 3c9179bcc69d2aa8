"""The routes of the server: LibreTranslate's interface, our own, health and metrics."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import signal
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nmt.data.languages import identify
from nmt.errors import counted, print_message, reason
from nmt.inference.bulk import Failure
from nmt.inference.translation import Translation
from nmt.search.options import SearchOptions
from nmt.server.answers import described
from nmt.server.models import Overloaded, ServedModel, Work
from nmt.server.openapi import describe
from nmt.server.reading import Limits, Refused, number_of, read_fields, text_of, texts_of, truth_of
from nmt.server.segments import Segments, split_text

POLL_S = 0.5  # between two checks whether the client is still there
MINUTE_S = 60.0
CLIENTS = 10_000  # whose requests of the last minute are counted

Handler = Callable[[Request], Awaitable[Response]]
Pair = tuple[str, str]  # codes of source and target language


class Languages(NamedTuple):
    """The models by (source, target), and how they translate unless a request says otherwise."""

    models: Mapping[Pair, ServedModel]
    options: SearchOptions

    @property
    def sources(self) -> list[str]:
        return list(dict.fromkeys(source for source, _ in self.models))

    def targets(self, source: str) -> list[str]:
        return [target for other, target in self.models if other == source]

    def model(self, source: str, target: str) -> ServedModel:
        """Return the model of a pair. Raises Refused for any other pair."""
        model = self.models.get((source, target))
        if model is None:
            pairs = ", ".join(" to ".join(pair) for pair in self.models)
            raise Refused(400, f"{source} to {target}: not supported; this server translates {pairs}")
        return model


class Server:
    """Answers requests with the models of ``languages``.

    ``keys`` are the accepted API keys; if it is empty, requests need no key. ``per_minute`` is the maximum number of
    requests of an address within a minute; None: unlimited. A request ends after ``timeout_s``.
    """

    def __init__(
        self,
        languages: Languages,
        *,
        limits: Limits,
        keys: Sequence[str] = (),
        origins: Sequence[str] = (),
        per_minute: int | None = None,
        timeout_s: float = 60.0,
        log: bool = True,
    ) -> None:
        self.languages = languages
        self.limits = limits
        self.keys = [key.encode() for key in keys]
        self.origins = list(origins)
        self.per_minute = per_minute
        self.timeout_s = timeout_s
        self.log = log
        self.times: dict[str, deque[float]] = {}  # of the requests of each client within the last minute
        self.metrics = CollectorRegistry()
        self.requests = Counter("nmt_requests", "Answered requests.", ["path", "status"], registry=self.metrics)
        self.seconds = Histogram(
            "nmt_request_seconds", "Seconds from request to answer.", ["path"], registry=self.metrics
        )
        waiting = Gauge("nmt_waiting_lines", "Lines that wait for translation.", registry=self.metrics)
        waiting.set_function(lambda: sum(model.waiting for model in languages.models.values()))
        translated = Gauge("nmt_translated_lines", "Lines translated since the start.", registry=self.metrics)
        translated.set_function(lambda: sum(model.translated for model in languages.models.values()))

    def app(self) -> Starlette:
        """Return the ASGI application."""
        posts = {
            "/translate": self.translate,
            "/detect": self.detect,
            "/v1/translate": self.translate_in_detail,
            "/v1/score": self.score,
            "/v1/align": self.align,
        }
        gets = {
            "/languages": self.list_languages,
            "/health": self.health,
            "/frontend/settings": self.frontend_settings,
            "/openapi.json": self.openapi,
            "/metrics": self.show_metrics,
        }
        routes = [
            Route(path, self.answering(handler, limited=True), methods=["POST"]) for path, handler in posts.items()
        ]
        routes += [Route(path, self.answering(handler), methods=["GET"]) for path, handler in gets.items()]
        cors = Middleware(CORSMiddleware, allow_origins=self.origins, allow_headers=["*"])
        return Starlette(
            routes=routes,
            middleware=[cors] if self.origins else [],
            lifespan=self.reload_on_signal,
            exception_handlers={404: _not_found, 405: _wrong_method},
        )

    @contextlib.asynccontextmanager
    async def reload_on_signal(self, _: Starlette) -> AsyncIterator[None]:
        """Let SIGHUP load all models again while the server runs."""
        loop = asyncio.get_running_loop()
        number = getattr(signal, "SIGHUP", None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # not in the main thread
                loop.add_signal_handler(number, lambda: loop.run_in_executor(None, self.reload))
        yield

    def reload(self) -> None:
        reloaded = [model.reload() for model in self.languages.models.values()]
        print_message(f"models: {sum(reloaded)} of {len(reloaded)} loaded again")

    def answering(self, handler: Handler, *, limited: bool = False) -> Handler:
        """Return a handler whose errors are answers, and which is measured and, if ``log``, named on stderr."""

        async def answer(request: Request) -> Response:
            started = time.perf_counter()
            try:
                if limited:
                    self.require_rate(request)
                response = await handler(request)
            except Refused as error:
                response = JSONResponse({"error": str(error)}, error.status)
            except Overloaded:
                message = "too many lines wait; try again in some seconds"
                response = JSONResponse({"error": message}, 429, {"Retry-After": "2"})
            except Exception as error:
                print_message(f"error: {request.url.path}: internal error: {type(error).__name__}: {reason(error)}")
                response = JSONResponse({"error": "internal error of the server; its log has the cause"}, 500)
            elapsed = time.perf_counter() - started
            self.requests.labels(request.url.path, response.status_code).inc()
            self.seconds.labels(request.url.path).observe(elapsed)
            if self.log:
                print_message(f"{request.method} {request.url.path} {response.status_code} {elapsed:.3f} s")
            return response

        return answer

    def require_rate(self, request: Request) -> None:
        """Raise Refused if the client has sent too many requests within a minute."""
        if self.per_minute is None:
            return
        now = time.monotonic()
        client = request.client.host if request.client else ""
        times = self.times.setdefault(client, deque())
        while times and times[0] < now - MINUTE_S:
            times.popleft()
        if len(times) >= self.per_minute:
            raise Refused(429, f"more than {self.per_minute} requests within a minute; wait")
        times.append(now)
        if len(self.times) > CLIENTS:
            del self.times[next(iter(self.times))]

    async def fields(self, request: Request) -> dict[str, Any]:
        """Return the fields of a request. Raises Refused without a valid key, where keys are needed."""
        fields = await read_fields(request)
        if self.keys:
            bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
            key = str(fields.get("api_key") or bearer).encode()
            if not any([hmac.compare_digest(key, known) for known in self.keys]):
                raise Refused(403, "api_key: missing or unknown")
        return fields

    async def wait_for(self, future: Future[Any], request: Request) -> Any:
        """Return the result of a future. Raises Refused if the client leaves, or if it takes too long."""
        waited = asyncio.wrap_future(future)
        end = time.monotonic() + self.timeout_s
        try:
            while not waited.done():
                await asyncio.wait({waited}, timeout=POLL_S)
                if not waited.done() and await request.is_disconnected():
                    raise Refused(499, "the client has closed the connection")
                if not waited.done() and time.monotonic() > end:
                    raise Refused(503, f"not finished within {self.timeout_s:g} s; send less text at once")
            return waited.result()
        except asyncio.CancelledError:
            raise Refused(503, "the server stops") from None
        finally:
            future.cancel()

    def languages_of(self, fields: Mapping[str, Any], texts: Sequence[str]) -> tuple[str, str, dict[str, Any] | None]:
        """Return source, target, and the identified source language if the request asks for it."""
        source = text_of(fields, "source", "auto" if len(self.languages.sources) > 1 else self.languages.sources[0])
        detected = None
        if source == "auto":
            detected = self.identified(" ".join(texts))[0]
            source = detected["language"]
        targets = self.languages.targets(source)
        target = text_of(fields, "target", targets[0] if len(targets) == 1 else None)
        return source, target, detected

    def identified(self, text: str) -> list[dict[str, Any]]:
        """Return the source languages of the models as LibreTranslate lists them, the likeliest first."""
        sources = self.languages.sources
        if len(sources) == 1:
            return [{"language": sources[0], "confidence": 100.0}]
        try:
            shares = identify(text, sources)
        except ImportError:
            fix = "name the source language, or let the operator install nmt-memory-attention[langid]"
            raise Refused(400, f"source=auto: this server cannot identify languages; {fix}") from None
        except KeyError as error:
            raise Refused(400, f"source=auto: {error.args[0]} cannot be identified; name the source language") from None
        return [{"language": code, "confidence": round(100 * share, 1)} for code, share in shares]

    async def translations(
        self, request: Request, fields: Mapping[str, Any], texts: Sequence[Segments], work: Work
    ) -> tuple[list[list[Translation]], dict[str, Any] | None]:
        """Return the translations of the lines of each text, and the identified language."""
        lines = [line for segments in texts for line in segments.lines]
        source, target, detected = self.languages_of(fields, lines)
        model = self.languages.model(source, target)
        if len(lines) > model.max_waiting:
            raise Refused(413, f"q: {counted(len(lines), 'line')}; send at most {model.max_waiting:,} at once")
        results = await self.wait_for(model.submit(lines, work), request) if lines else []
        for line, result in zip(lines, results, strict=True):
            if isinstance(result, Failure):
                raise Refused(400, f"q: {line[:40]!r}…: {result.reason}")
        in_order = iter(results)
        return [[next(in_order) for _ in segments.places] for segments in texts], detected

    async def translate(self, request: Request) -> Response:
        """LibreTranslate's /translate: one text or a list, as text or HTML, with alternatives."""
        fields = await self.fields(request)
        texts, is_list = texts_of(fields, self.limits)
        form = text_of(fields, "format", "text")
        if form not in ("text", "html"):
            raise Refused(400, f"format={form}: must be text or html")
        count = number_of(fields, "alternatives", most=self.limits.max_alternatives)
        segments = [split_text(text, form) for text in texts]  # type: ignore[arg-type]
        work = Work(with_best(self.languages.options, count + 1))
        translations, detected = await self.translations(request, fields, segments, work)
        texts_out = [
            part.fill([best.text for best in of_text]) for part, of_text in zip(segments, translations, strict=True)
        ]
        answer: dict[str, Any] = {"translatedText": texts_out if is_list else texts_out[0]}
        if count:
            others = [
                alternatives(part, of_text, count) if form == "text" else []
                for part, of_text in zip(segments, translations, strict=True)
            ]
            answer["alternatives"] = others if is_list else others[0]
        if detected is not None:
            answer["detectedLanguage"] = [detected] * len(texts) if is_list else detected
        return JSONResponse(answer)

    async def translate_in_detail(self, request: Request) -> Response:
        """Our own /v1/translate: for each line, translations with scores, words and links."""
        fields = await self.fields(request)
        texts, _ = texts_of(fields, self.limits)
        count = max(1, number_of(fields, "n_best", most=self.limits.max_alternatives + 1))
        segments = [Segments([text], [0]) for text in texts]
        work = Work(with_best(self.languages.options, count), alignments=truth_of(fields, "alignments", default=True))
        translations, detected = await self.translations(request, fields, segments, work)
        answer = {"translations": [described(best, count) for [best] in translations]}
        return JSONResponse(answer | ({} if detected is None else {"detected": detected}))

    async def score(self, request: Request) -> Response:
        """Our own /v1/score: the log-probability of given translations."""
        pairs, model = await self.pairs(request)
        scored = await self.wait_for(model.call(lambda translator: translator.score(pairs), lines=len(pairs)), request)
        return JSONResponse({"log_probs": [float(pair.log_prob) for pair in scored]})

    async def align(self, request: Request) -> Response:
        """Our own /v1/align: links between the words of given translations."""
        pairs, model = await self.pairs(request)
        links = await self.wait_for(model.call(lambda translator: translator.align(pairs), lines=len(pairs)), request)
        return JSONResponse({"links": [sorted(map(list, of_pair)) for of_pair in links]})

    async def pairs(self, request: Request) -> tuple[list[tuple[str, str]], ServedModel]:
        """Return the given pairs and their model. Raises Refused if they do not match."""
        fields = await self.fields(request)
        sources, _ = texts_of(fields, self.limits)
        targets, _ = texts_of(fields, self.limits, "translations")
        if len(sources) != len(targets):
            raise Refused(
                400, f"translations: {len(targets)}, for {counted(len(sources), 'text')} in q; give one for each"
            )
        source, target, _ = self.languages_of(fields, sources)
        return list(zip(sources, targets, strict=True)), self.languages.model(source, target)

    async def detect(self, request: Request) -> Response:
        fields = await self.fields(request)
        texts, _ = texts_of(fields, self.limits)
        return JSONResponse(self.identified(" ".join(texts)))

    async def list_languages(self, _: Request) -> Response:
        languages = self.languages
        codes = list(dict.fromkeys([*languages.sources, *(target for _, target in languages.models)]))
        return JSONResponse([{"code": code, "name": code, "targets": languages.targets(code)} for code in codes])

    async def health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def frontend_settings(self, _: Request) -> Response:
        source, target = next(iter(self.languages.models))
        limit = self.limits.max_characters
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

    async def openapi(self, _: Request) -> Response:
        targets = dict.fromkeys(target for _, target in self.languages.models)
        return JSONResponse(describe(self.languages.sources, [*targets], self.limits))

    async def show_metrics(self, _: Request) -> Response:
        return Response(generate_latest(self.metrics), media_type=CONTENT_TYPE_LATEST)


def with_best(options: SearchOptions, count: int) -> SearchOptions:
    """Return options that find this number of translations of a line."""
    return replace(options, n_best=count, beam_size=max(options.beam_size, count))


def alternatives(segments: Segments, translations: Sequence[Translation], count: int) -> list[str]:
    """Return up to ``count`` further translations of a text: its n-th one is made of the n-th of each line."""
    first = segments.fill([best.text for best in translations])
    texts = [
        segments.fill(
            [(best.n_best[min(rank, len(best.n_best) - 1)] if best.n_best else best).text for best in translations]
        )
        for rank in range(1, count + 1)
    ]
    return list(dict.fromkeys(text for text in texts if text != first))


async def _not_found(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": f"{request.url.path}: unknown; /openapi.json lists the paths"}, 404)


async def _wrong_method(request: Request, error: Exception) -> Response:
    message = f"{request.method} {request.url.path}: wrong method; see /openapi.json"
    return JSONResponse({"error": message}, 405, getattr(error, "headers", None))
