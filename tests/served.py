"""A server in a thread, with a translator that needs no model, and requests to it."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from threading import Event
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode

import uvicorn
from commands.processes import wait_until

from nmt.commands.serve import listen
from nmt.errors import UserError
from nmt.inference.translation import NO_TRANSLATION, Translation
from nmt.search.options import SearchOptions
from nmt.server.app import Languages, Server
from nmt.server.connections import Connection
from nmt.server.models import ServedModel

JSON = "application/json"


class Upper:
    """Translates into capital letters, once it is ``released``. The n-th best translation has n exclamation marks.

    A text of over 1,000 characters waits for ``released_long``. It refuses the line "too long", and cuts the
    translation of "endless".
    """

    loaded_model = None
    attention = SimpleNamespace(name="Upper", reads_source=True)
    trained = SimpleNamespace(
        model=SimpleNamespace(attention=SimpleNamespace(needs_trace=False, reads_source=True, signed=False))
    )

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.released, self.released_long = Event(), Event()
        self.released.set()
        self.released_long.set()

    def translate(
        self,
        lines: Sequence[str],
        options: SearchOptions,
        *,
        prefixes: Sequence[str] | None,
        alignments: bool,
        markup: bool,
        on_failure: Callable[[int, str], None],
    ) -> list[Translation]:
        self.batches.append(list(lines))
        self.markup = markup
        assert self.released.wait(30)
        assert max(map(len, lines)) <= 1000 or self.released_long.wait(30)
        if "crash" in lines:
            raise RuntimeError("broken")
        if "glossary" in lines:  # of the server, which was edited since it has started
            raise UserError("/private/terms.tsv:1: 'a': has another target above; keep one of them")
        terms = options.terms or {}
        lines = [" ".join(terms.get(word, word) for word in line.split(" ")) for line in lines]
        lines = [before + line for before, line in zip(prefixes or [""] * len(lines), lines, strict=True)]
        return [self._translation(row, line, options, on_failure) for row, line in enumerate(lines)]

    def read_prefixes(self, prefixes: Sequence[str], options: SearchOptions) -> None:
        if "no" in prefixes:
            raise UserError("prefixes[0]='no': has characters that the target tokenizer cannot spell; change it")

    def _translation(
        self, row: int, line: str, options: SearchOptions, on_failure: Callable[[int, str], None]
    ) -> Translation:
        if line == "too long":
            on_failure(row, "a source of 9,999 pieces")
            return NO_TRANSLATION
        n_best = [Translation(line.upper() + "!" * rank, score=-1.0 - rank) for rank in range(options.n_best)]
        return Translation(line.upper(), score=-1.0, n_best=n_best, is_cut=line == "endless")


class Client:
    """Sends requests to a server in this process."""

    def __init__(self, port: int, server: Server, model: ServedModel, translator: Upper) -> None:
        self.port, self.server, self.model, self.translator = port, server, model, translator
        self.url = f"http://127.0.0.1:{port}"

    def send(
        self, path: str, data: bytes | None = None, kind: str = "application/json", **headers: str
    ) -> tuple[int, Any]:
        """Return status and JSON of the answer, or its text; with ``data`` a POST."""
        request = urllib.request.Request(self.url + path, data, {"Content-Type": kind, **headers})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text = answer.read().decode()
                return answer.status, json.loads(text) if answer.headers["Content-Type"] == JSON else text
        except HTTPError as error:
            with error:
                return error.code, json.loads(error.read())["error"]

    def post(self, path: str, **fields: Any) -> tuple[int, Any]:
        return self.send(path, json.dumps(fields).encode())

    def stream(self, **fields: Any) -> list[tuple[str, Any]]:
        """Return the events of /v1/translate, each with its fields."""
        data = json.dumps({"source": "en", "target": "de", "stream": True, **fields}).encode()
        request = urllib.request.Request(self.url + "/v1/translate", data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            lines = [event.split("\n") for event in answer.read().decode().strip().split("\n\n")]
        return [(name.removeprefix("event: "), json.loads(fields.removeprefix("data: "))) for name, fields in lines]

    def form(self, path: str, **fields: str) -> tuple[int, Any]:
        return self.send(path, urlencode(fields).encode(), "application/x-www-form-urlencoded")

    def hold(self, pool: Executor) -> Future[Any]:
        """Return the answer to a request that the model translates once the translator is released."""
        self.translator.released.clear()
        answer = pool.submit(self.translate, "a")
        wait_until(lambda: self.translator.batches)
        return answer

    def translate(self, q: Any, **fields: Any) -> Any:
        status, answer = self.post("/translate", q=q, **{"source": "en", "target": "de", **fields})
        return answer["translatedText"] if status == 200 else (status, answer)


@contextmanager
def serving(
    *,
    pairs: Sequence[tuple[str, str]] = (("en", "de"),),
    translators: Mapping[str, Any] | None = None,
    max_waiting: int = 50,
    options: SearchOptions = SearchOptions(),  # noqa: B008
    connections: int = 1000,
    **settings: Any,
) -> Iterator[Client]:
    """Yield a client of a server that translates these pairs with each of these translators, the first by default."""
    translators = translators or {"upper": Upper()}
    models = {name: ServedModel(translator, max_waiting=max_waiting) for name, translator in translators.items()}
    server = Server(
        languages=Languages(dict.fromkeys(pairs, models), options),
        **{"max_characters": 200, **settings},
    )
    listener = listen("127.0.0.1", 0)
    config = uvicorn.Config(
        server.app(),
        http=Connection,
        log_level="error",
        ws="none",
        limit_concurrency=connections,
        timeout_graceful_shutdown=5,
    )
    running = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: running.run(sockets=[listener]))
    thread.start()
    first = next(iter(translators))
    try:
        yield Client(listener.getsockname()[1], server, models[first], translators[first])
    finally:
        for translator in translators.values():
            if isinstance(translator, Upper):
                translator.released.set()
                translator.released_long.set()
        running.should_exit = True
        thread.join()
        for model in models.values():
            model.close()
