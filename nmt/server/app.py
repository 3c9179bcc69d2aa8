"""The routes of the server: its page, LibreTranslate's interface, our own, health and metrics."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import re
import signal
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nmt.data.languages import identify
from nmt.documents.segments import Segments, split_text
from nmt.errors import UserError, counted, print_message
from nmt.inference.bulk import Failure
from nmt.inference.ensemble import Ensemble
from nmt.inference.onnx.model import OnnxModel, is_deployment
from nmt.inference.translation import Translation
from nmt.inference.translator import Translator
from nmt.search.options import LANGUAGE, REWRITES, SearchOptions
from nmt.server.answers import CUT, MAX_WEIGHTS, Details, properties_of, require_few_weights, require_slots
from nmt.server.memories import Memories, StoredMemory, encode
from nmt.server.models import Overloaded, ServedModel, Work
from nmt.server.openapi import OWN_FIELDS, describe
from nmt.server.page import translation_page
from nmt.server.reading import Limits, Refused, bool_of, logged, number_of, read_fields, terms_of, text_of, texts_of
from nmt.server.streams import EventStream
from nmt.settings.arguments import suggestion

POLL_S = 0.5  # between two checks whether the client is still there
MINUTE_S = 60.0
CLIENTS = 10_000  # whose requests of the last minute are counted

Handler = Callable[[Request], Awaitable[Response]]
LanguagePair = tuple[str, str]  # codes of source and target language


class Languages(NamedTuple):
    """The models of each (source, target) by name, and how they translate unless a request says otherwise.

    With ``sentences``, each sentence of a line is translated on its own.
    """

    models: Mapping[LanguagePair, Mapping[str, ServedModel]]
    options: SearchOptions
    sentences: bool = False

    @property
    def all_models(self) -> list[ServedModel]:
        return [model for of_pair in self.models.values() for model in of_pair.values()]

    @property
    def sources(self) -> list[str]:
        return list(dict.fromkeys(source for source, _ in self.models))

    def targets(self, source: str) -> list[str]:
        return [target for other, target in self.models if other == source]

    def options_of(self, source: str, *, best: int, sentences: bool) -> SearchOptions:
        """Return the options to find this number of the best translations from a language."""
        code = source if re.fullmatch(LANGUAGE, source) else "en"  # whose rules hold for unknown languages
        return replace(self.options.with_best(best), sentences=code if sentences else None)

    def model(self, source: str, target: str, name: str | None = None) -> ServedModel:
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

    ``keys`` are the accepted API keys; if it is empty, requests need no key. ``per_minute`` is the maximum number of
    requests of an address within a minute; None: unlimited. A request ends after ``timeout_s``.
    """

    languages: Languages
    limits: Limits
    memories: Memories
    keys: Sequence[str] = ()
    origins: Sequence[str] = ()
    per_minute: int | None = None
    timeout_s: float = 60.0
    log: bool = True
    times: dict[str, deque[float]] = field(default_factory=dict, init=False)
    """The times of the requests of each client within the last minute."""
    metrics: CollectorRegistry = field(default_factory=CollectorRegistry, init=False)

    def __post_init__(self) -> None:
        metrics: dict[str, Any] = {"registry": self.metrics}
        self.requests = Counter("nmt_requests", "Answered requests.", ["path", "status"], **metrics)
        self.seconds = Histogram("nmt_request_seconds", "Seconds from request to answer.", ["path"], **metrics)
        models = self.languages.all_models
        waiting = Gauge("nmt_waiting_lines", "Lines that wait for translation.", **metrics)
        waiting.set_function(lambda: sum(model.waiting for model in models))
        translated = Gauge("nmt_translated_lines", "Lines translated since the start.", **metrics)
        translated.set_function(lambda: sum(model.translated for model in models))

    def app(self) -> Starlette:
        """Return the ASGI application."""
        handlers: list[tuple[str, str, Handler]] = [
            ("POST", "/translate", self.translate),
            ("POST", "/detect", self.detect),
            ("POST", "/v1/translate", self.translate_in_detail),
            ("POST", "/v1/score", self.score),
            ("POST", "/v1/align", self.align),
            ("POST", "/v1/memories", self.store_memory),
            ("DELETE", "/v1/memories/{memory}", self.drop_memory),
            ("GET", "/", self.page),
            ("GET", "/v1/models", self.list_models),
            ("GET", "/languages", self.list_languages),
            ("GET", "/health", self.health),
            ("GET", "/frontend/settings", self.frontend_settings),
            ("GET", "/openapi.json", self.openapi),
            ("GET", "/metrics", self.show_metrics),
        ]
        methods = sorted({method for method, _, _ in handlers})
        cors = Middleware(
            CORSMiddleware,
            allow_origins=[origin.rstrip("/") for origin in self.origins],  # browsers send it without
            allow_methods=methods,
            allow_headers=["*"],
            expose_headers=["Retry-After"],
        )
        return Starlette(
            routes=[
                Route(path, self.answering(path, handler, limited=method != "GET"), methods=[method])
                for method, path, handler in handlers
            ],
            middleware=[cors] if self.origins else [],
            lifespan=self.reload_on_signal,
            exception_handlers={404: _not_found, 405: _wrong_method},
        )

    @contextlib.asynccontextmanager
    async def reload_on_signal(self, _: Starlette) -> AsyncIterator[None]:
        """Let SIGHUP load all models again while the server runs, and end their threads after it."""
        loop = asyncio.get_running_loop()
        number = getattr(signal, "SIGHUP", None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # not in the main thread
                loop.add_signal_handler(number, lambda: loop.run_in_executor(None, self.reload))
        yield
        for model in self.languages.all_models:
            model.close()  # Python aborts at its end if a thread is in a library

    def reload(self) -> None:
        reloaded = [model.reload() for model in self.languages.all_models]
        print_message(f"models: {sum(reloaded)} of {len(reloaded)} loaded again")

    def answering(self, path: str, handler: Handler, *, limited: bool) -> Handler:
        """Return a handler that turns exceptions into error answers, and records each request of ``path``."""

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
                response = JSONResponse({"error": logged(request.url.path, error)}, 500)
            record = partial(self.record, request.method, path, response.status_code, started)
            if isinstance(response, EventStream):
                response.on_end = record
            else:
                record()
            return response

        return answer

    def record(self, method: str, path: str, status: int, started: float) -> None:
        """Count and time an answer, and log it on stderr if ``log``. ``path`` has no id of a memory."""
        elapsed = time.perf_counter() - started
        self.requests.labels(path, status).inc()
        self.seconds.labels(path).observe(elapsed)
        if self.log:
            print_message(f"{method} {path} {status} {elapsed:.3f} s")

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
            raise Refused(429, f"more than {self.per_minute} requests within a minute; wait a minute")
        times.append(now)
        if len(self.times) > CLIENTS:
            del self.times[next(iter(self.times))]

    async def fields(self, request: Request) -> dict[str, Any]:
        """Return the fields of a request.

        Raises Refused without a valid key, where keys are needed, and for an unknown field below /v1.
        """
        fields = await read_fields(request)
        if self.keys:
            bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
            key = str(fields.get("api_key") or bearer).encode()
            if not any([hmac.compare_digest(key, known.encode()) for known in self.keys]):
                raise Refused(403, "api_key: missing or unknown; send a key of this server")
        known = OWN_FIELDS.get(request.url.path, fields)
        for name in fields.keys() - known:
            fix = suggestion(name, known) or f"; send {', '.join(known)}"
            raise Refused(400, f"{name:.40}: unknown field of {request.url.path}{fix}")
        return fields

    async def wait_for(self, future: Future[Any], request: Request) -> Any:
        """Return the result of a future. Raises Refused if the client disconnects, or if it takes too long."""
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
            raise Refused(503, "the server stops; send the request again later") from None
        finally:
            future.cancel()

    def identified(self, text: str) -> list[dict[str, Any]]:
        """Return the source languages of the models as LibreTranslate lists them, the likeliest first."""
        sources = self.languages.sources
        if len(sources) == 1:
            return [{"language": sources[0], "confidence": 100.0}]
        try:
            shares = identify(text, sources)
        except ImportError:
            fix = "name the source language, or ask the operator to install nmt-memory-attention[langid]"
            raise Refused(400, f"source=auto: this server cannot identify languages; {fix}") from None
        except KeyError as error:
            raise Refused(400, f"source=auto: {error.args[0]} cannot be identified; name the source language") from None
        return [{"language": code, "confidence": round(100 * share, 1)} for code, share in shares]

    def pair_of(self, fields: Mapping[str, Any], lines: Sequence[str]) -> tuple[LanguagePair, dict[str, Any] | None]:
        """Return the languages of a request, and the identified one if the request asks for it."""
        source = text_of(fields, "source", "auto" if len(self.languages.sources) > 1 else self.languages.sources[0])
        detected = None
        if source == "auto":
            detected = self.identified(" ".join(lines))[0]
            source = detected["language"]
        targets = self.languages.targets(source)
        return (source, text_of(fields, "target", targets[0] if len(targets) == 1 else None)), detected

    def model_of(
        self, fields: Mapping[str, Any], lines: Sequence[str]
    ) -> tuple[ServedModel, str, dict[str, Any] | None]:
        """Return the model for the lines, their language, and the identified one if the request asks for it."""
        (source, target), detected = self.pair_of(fields, lines)
        return self.model_for((source, target), fields, lines), source, detected

    def model_for(self, pair: LanguagePair, fields: Mapping[str, Any], lines: Sequence[str]) -> ServedModel:
        """Return the model for lines in these languages. Raises Refused if they are too many."""
        name = text_of(fields, "model") if "model" in fields else None
        model = self.languages.model(*pair, name)
        if len(lines) > model.max_waiting:
            raise Refused(413, f"q: {counted(len(lines), 'line')}; send at most {model.max_waiting:,} at once")
        return model

    async def translations(self, request: Request, model: ServedModel, lines: Sequence[str], work: Work) -> list[Any]:
        """Return the translation of each line."""
        if work.markup and not model.translator.attention.reads_source:
            raise Refused(400, "format=html: the model has no attention, which places tags; send format=text")
        results = await self.wait_for(model.submit(lines, work), request) if lines else []
        for line, result in zip(lines, results, strict=True):
            if isinstance(result, Failure):
                raise Refused(400, f"q: {line[:40]!r}…: {result.reason}")
        return list(results)

    async def translate(self, request: Request) -> Response:
        """LibreTranslate's /translate: one text or a list, as text or HTML, with alternatives."""
        fields = await self.fields(request)
        texts = texts_of(fields, self.limits)
        is_list = isinstance(fields["q"], list)
        form = text_of(fields, "format", "text")
        if form not in ("text", "html"):
            raise Refused(400, f"format={form}: must be text or html")
        count = number_of(fields, "alternatives", maximum=self.limits.max_alternatives)
        segments = [split_text(text, form) for text in texts]  # type: ignore[arg-type]
        lines = [line for part in segments for line in part.lines]
        (source, target), detected = self.pair_of(fields, lines)
        if source == target and source in self.languages.sources:  # LibreTranslate returns such texts, too
            results = [Translation(line) for line in lines]
        else:
            model = self.model_for((source, target), fields, lines)
            options = self.languages.options_of(source, best=count + 1, sentences=self.languages.sentences)
            results = await self.translations(request, model, lines, Work(options, markup=form == "html"))
        in_order = iter(results)
        translations = [[next(in_order) for _ in part.indices] for part in segments]
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
        cut = [row for row, of_text in enumerate(translations) if any(best.is_cut for best in of_text)]
        if cut:
            answer["warnings"] = [f"q[{row}]: {CUT}" if is_list else f"q: {CUT}" for row in cut]
        if detected is not None:
            answer["detectedLanguage"] = [detected] * len(texts) if is_list else detected
        return JSONResponse(answer)

    async def translate_in_detail(self, request: Request) -> Response:
        """Our own /v1/translate: for each line, translations with scores, words, links, weights and slots."""
        fields = await self.fields(request)
        memory = self.memory_of(fields)
        details = Details(
            max(1, number_of(fields, "n_best", maximum=self.limits.max_alternatives + 1)),
            alignments=bool_of(fields, "alignments", default=memory is None or memory.aligned),
            weights=bool_of(fields, "weights"),
            slots=bool_of(fields, "slots"),
        )
        stream = bool_of(fields, "stream")
        prefix = ""
        if fields.get("prefix"):
            [prefix] = texts_of({"prefix": text_of(fields, "prefix")}, self.limits, "prefix")
        sentences = self.sentences_of(fields, prefix=prefix, memory=memory)
        terms = terms_of(fields)
        if memory is not None:
            work = Work(self.languages.options.with_best(details.n_best), details)
            if stream:
                raise Refused(400, "stream=true: a memory is translated at once; remove stream")
            if prefix:
                raise Refused(400, "prefix: stored memories are translated without one; remove prefix")
            if terms:
                raise Refused(400, "glossary: a memory does not keep the words of its text; remove glossary, or send q")
            require_no_rewrites(work.options, "memory")
            answers = memory.model.call(partial(memory.translate, work=work), lines=len(memory.texts))
            return JSONResponse({"translations": await self.wait_for(answers, request)})
        texts = texts_of(fields, self.limits)
        require_few_weights(texts, details)
        model, source, detected = self.model_of(fields, texts)
        options = self.languages.options_of(source, best=details.n_best, sentences=sentences)
        work = Work(replace(options, terms=terms or None), details, prefix=prefix)
        if details.slots:
            require_slots(model.translator)
        if terms and not model.translator.attention.reads_source:
            raise Refused(400, "glossary: the model has no attention, which places terms; remove glossary")
        if terms and prefix:
            raise Refused(400, "glossary: may change words of the prefix; remove one of them")
        if prefix:
            require_no_rewrites(work.options, "prefix")
            require_prefix(model.translator, prefix, work.options)
        if stream:
            return EventStream(model, texts, work, timeout_s=self.timeout_s, last=with_detected({}, detected))
        translations = await self.translations(request, model, texts, work)
        return JSONResponse(with_detected({"translations": translations}, detected))

    def sentences_of(self, fields: Mapping[str, Any], *, prefix: str, memory: StoredMemory | None) -> bool:
        """Return whether each sentence is translated on its own. Raises Refused if that is impossible."""
        is_whole = bool(prefix) or memory is not None
        sentences = bool_of(fields, "sentences", default=self.languages.sentences and not is_whole)
        if sentences and not self.languages.sentences:
            raise Refused(400, "sentences=true: this server splits no lines; ask the operator to set sentences=true")
        if sentences and is_whole:
            field = "prefix" if prefix else "memory"
            raise Refused(400, f"sentences=true: the {field} belongs to a whole text; remove one of them")
        return sentences

    async def score(self, request: Request) -> Response:
        """Our own /v1/score: the log-probability of given translations, of texts or of a stored memory."""
        fields = await self.fields(request)
        targets = texts_of(fields, self.limits, "translations")
        memory = self.memory_of(fields)
        if memory is None:
            pairs, model = self.pairs(fields, targets)
            refuse = partial(refuse_pair, pairs)
            scores = model.call(
                lambda translator: [float(pair.log_prob) for pair in translator.score(pairs, on_failure=refuse)],
                lines=len(pairs),
            )
        else:
            require_equal(len(targets), len(memory.texts), "memory")
            scores = memory.model.call(partial(memory.score, targets=targets), lines=len(targets))
        return JSONResponse({"log_probs": await self.wait_for(scores, request)})

    async def align(self, request: Request) -> Response:
        """Our own /v1/align: links between the words of given translations."""
        fields = await self.fields(request)
        pairs, model = self.pairs(fields, texts_of(fields, self.limits, "translations"))
        if not model.translator.attention.reads_source:
            raise Refused(400, "translations: the model has no attention, which links words; name another model")
        refuse = partial(refuse_pair, pairs)
        aligned = model.call(lambda translator: translator.align(pairs, on_failure=refuse), lines=len(pairs))
        links = await self.wait_for(aligned, request)
        return JSONResponse({"links": [sorted(map(list, of_pair)) for of_pair in links]})

    def pairs(self, fields: Mapping[str, Any], targets: Sequence[str]) -> tuple[list[tuple[str, str]], ServedModel]:
        """Return the given pairs and their model. Raises Refused if they do not match."""
        sources = texts_of(fields, self.limits)
        require_equal(len(targets), len(sources), "q")
        model = self.model_of(fields, sources)[0]
        loaded = model.translator.loaded_model
        if isinstance(loaded, Ensemble):
            raise Refused(400, "translations: an ensemble only translates; name a single model")
        if isinstance(loaded, OnnxModel) and is_deployment(loaded.root):
            raise Refused(400, "translations: this model is an export, which only translates; name another model")
        return list(zip(sources, targets, strict=True)), model

    async def store_memory(self, request: Request) -> Response:
        """Our own /v1/memories: encode texts once, and answer later requests from their memories."""
        fields = await self.fields(request)
        if not self.memories.limit:
            raise Refused(400, "memories: this server stores none; ask the operator to raise max_memories")
        texts = texts_of(fields, self.limits)
        aligned = bool_of(fields, "alignments")
        model, _, detected = self.model_of(fields, texts)
        encoding = partial(encode, model, texts=texts, aligned=aligned, max_bytes=self.memories.max_bytes)
        encoded = model.call(encoding, lines=len(texts))
        memory = await self.wait_for(encoded, request)
        answer = {"id": self.memories.add(memory), "texts": len(texts), "bytes": memory.size}
        return JSONResponse(with_detected({**answer, "minutes": self.memories.minutes}, detected))

    async def drop_memory(self, request: Request) -> Response:
        await self.fields(request)
        self.memories.remove(request.path_params["memory"])
        return JSONResponse({"status": "ok"})

    def memory_of(self, fields: Mapping[str, Any]) -> StoredMemory | None:
        """Return the stored memory that a request names, or None. Raises Refused if it also names a text or a model."""
        if "memory" not in fields:
            return None
        memory = self.memories.get(text_of(fields, "memory"))
        for key in ("q", "source", "target", "model"):
            if key in fields:
                raise Refused(400, f"{key}: the memory has a text and a model; remove {key}, or memory")
        return memory

    async def detect(self, request: Request) -> Response:
        fields = await self.fields(request)
        texts = texts_of(fields, self.limits)
        return JSONResponse(self.identified(" ".join(texts)))

    async def list_languages(self, _: Request) -> Response:
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
            "characters": self.limits.max_characters,
            "texts": min(self.limits.max_texts, *(model.max_waiting for model in self.languages.all_models)),
            "n_best": self.limits.max_alternatives + 1,
            "weights": MAX_WEIGHTS,
        }
        return JSONResponse({"models": models, "limits": limits, "key_required": bool(self.keys)})

    async def page(self, _: Request) -> Response:
        return translation_page()

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
        names = dict.fromkeys(name for of_pair in self.languages.models.values() for name in of_pair)
        return JSONResponse(describe(self.languages.sources, [*targets], [*names], self.limits))

    async def show_metrics(self, _: Request) -> Response:
        return Response(generate_latest(self.metrics), media_type=CONTENT_TYPE_LATEST)


def with_detected(answer: dict[str, Any], detected: dict[str, Any] | None) -> dict[str, Any]:
    return answer if detected is None else answer | {"detected": detected}


def require_no_rewrites(options: SearchOptions, field: str) -> None:
    """Raise Refused if the server replaces words of translations, which ``field`` does not allow."""
    for setting in options.settings(REWRITES):
        name = setting.partition("=")[0]  # the value may be a path of the server
        fix = f"remove {field}, or ask the operator to remove {name}"
        raise Refused(400, f"{field}: cannot be combined with {name} of this server; {fix}")


def require_prefix(translator: Translator, prefix: str, options: SearchOptions) -> None:
    """Raise Refused if no translation can begin with this text."""
    try:
        translator.read_prefixes([prefix], options)
    except UserError as error:
        raise Refused(400, str(error).replace("prefixes[0]", "prefix", 1)) from None


def refuse_pair(pairs: Sequence[tuple[str, str]], row: int, reason: str) -> None:
    """Raise Refused for a pair that the model cannot score."""
    raise Refused(400, f"q: {pairs[row][0][:40]!r}…: {reason}")


def require_equal(targets: int, sources: int, field: str) -> None:
    """Raise Refused unless each text of ``field`` has one translation."""
    if targets != sources:
        raise Refused(400, f"translations: {targets}, for {counted(sources, 'text')} in {field}; send one per text")


def alternatives(segments: Segments, translations: Sequence[Translation], count: int) -> list[str]:
    """Return up to ``count`` further translations of a text: the n-th joins the n-th translations of its lines."""
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
