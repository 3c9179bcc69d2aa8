"""The server answers LibreTranslate's clients and its own, names every mistake, and loses no request."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from commands.processes import wait_until
from served import Client, Upper, serving

from nmt.inference.translation import Translation
from nmt.server import reading

MULTIPART = (
    '--x\r\nContent-Disposition: form-data; name="q"\r\n\r\nün\r\n'
    '--x\r\nContent-Disposition: form-data; name="source"\r\n\r\nen\r\n'
    '--x\r\nContent-Disposition: form-data; name="target"\r\n\r\nde\r\n--x--\r\n'
)


@pytest.fixture
def client() -> Iterator[Client]:
    with serving() as client:
        yield client


def test_libretranslatepy_works_unchanged(client: Client) -> None:
    library = pytest.importorskip("libretranslatepy")
    api = library.LibreTranslateAPI(client.url)
    assert api.translate("a dog & a café", "en", "de") == "A DOG & A CAFÉ"
    assert [language["code"] for language in api.languages()] == ["en", "de"]
    assert api.detect("a dog") == [{"language": "en", "confidence": 100.0}]


@pytest.mark.parametrize(
    ("path", "body", "kind", "expected"),
    [
        # Weblate: a JSON list, with an empty key.
        ("/translate", {"api_key": "", "q": ["a", "", "b"], "source": "en", "target": "de"}, "json", ["A", "", "B"]),
        # deep-translator: a query without a body.
        ("/translate?q=a+b&source=en&target=de&format=text", None, "", "A B"),
        # The npm package libretranslate: JSON with another name of the key.
        ("/translate", {"q": "a", "source": "auto", "target": "de", "format": "text", "apiKey": ""}, "json", "A"),
        ("/translate", MULTIPART, "multipart", "ÜN"),
        # curl -d '{"q": …}' without a Content-Type.
        ("/translate", {"q": "a", "source": "en", "target": "de"}, "form", "A"),
    ],
)
def test_shapes_of_other_clients(client: Client, path: str, body: Any, kind: str, expected: Any) -> None:
    data = body.encode() if isinstance(body, str) else b"" if body is None else json.dumps(body).encode()
    kinds = {"json": "application/json", "multipart": "multipart/form-data; boundary=x", "": "text/plain"}
    kinds["form"] = "application/x-www-form-urlencoded"
    status, answer = client.send(path, data, kinds[kind])
    assert status == 200 and answer["translatedText"] == expected


def test_html_is_translated_in_sentences_with_their_tags(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    page = "<p>a <b>dog</b> &lt;</p>\n<pre>x</pre>y"
    assert client.translate(page, format="html") == "<p>A <B>DOG</B> &LT;</p>\n<pre>x</pre>Y"
    assert client.translator.markup and client.translator.batches[-1] == ["a <b>dog</b> &lt;", "y"]
    assert client.translate("a") == "A" and not client.translator.markup
    monkeypatch.setattr(client.translator.attention, "reads_source", False)
    status, error = client.translate(page, format="html")
    assert (status, error) == (400, "format=html: the model has no attention, which places tags; send format=text")


def test_alternatives_and_detected_language(client: Client) -> None:
    fields = {"q": "a\n\nb", "source": "auto", "target": "de", "alternatives": 2}
    detected = {"language": "en", "confidence": 100.0}
    answer = {"translatedText": "A\n\nB", "alternatives": ["A!\n\nB!", "A!!\n\nB!!"], "detectedLanguage": detected}
    assert client.post("/translate", **fields) == (200, answer)
    status, answer = client.post("/translate", **{**fields, "q": ["a", "b"], "alternatives": 1})
    assert answer["alternatives"] == [["A!"], ["B!"]] and answer["detectedLanguage"] == [detected] * 2


def test_cut_translations_are_named(client: Client) -> None:
    cut = "a translation was cut after 1,000 pieces; send shorter sentences"
    for q, warnings in (["a", "endless", "b"], [f"q[1]: {cut}"]), ("a\nendless", [f"q: {cut}"]), ("a", None):
        status, answer = client.post("/translate", q=q, source="en", target="de")
        assert status == 200 and answer.get("warnings") == warnings
    status, answer = client.post("/v1/translate", q=["a", "endless"])
    assert [best["cut"] for best in answer["translations"]] == [False, True]


def test_own_interface(client: Client) -> None:
    pair = {"source": "en", "target": "de"}
    status, answer = client.post("/v1/translate", q="a", n_best=2, **pair)
    assert status == 200 and [best["text"] for best in answer["translations"][0]["n_best"]] == ["A", "A!"]
    status, answer = client.post("/v1/translate", q=["a", "b"], prefix="x ")
    assert status == 200 and [best["text"] for best in answer["translations"]] == ["X A", "X B"]
    status, answer = client.form("/v1/translate", q="a", n_best="2", alignments="false")
    assert status == 200 and len(answer["translations"][0]["n_best"]) == 2 and "links" not in answer["translations"][0]
    assert len(client.post("/v1/translate", q="a", n_best=2.0)[1]["translations"][0]["n_best"]) == 2
    assert client.post("/v1/score", q=["a", "b"], translations=["A", "BB"], **pair) == (200, {"log_probs": [-1, -2]})
    assert client.post("/v1/align", q="a b", translations="B A", **pair) == (200, {"links": [[[0, 1], [1, 0]]]})


def test_each_request_has_its_own_glossary(client: Client) -> None:
    glossaries = [[{"source": "a", "target": target}] for target in "xyz"] + [[], None, "", [{"source": "b"}]]
    client.translator.released.clear()
    with ThreadPoolExecutor(20) as pool:
        answers = [
            pool.submit(client.post, "/v1/translate", q=["a", "b a"], glossary=terms) for terms in glossaries * 2
        ]
        wait_until(lambda: client.model.waiting > 20)
        client.translator.released.set()
        texts = [[best["text"] for best in answer.result()[1]["translations"]] for answer in answers]
    expected = [[target, f"B {target}"] for target in "XYZ"] + [["A", "B A"]] * 3 + [["A", " A"]]
    assert texts == expected * 2
    assert client.form("/v1/translate", q="a", glossary='[{"source": "a", "target": "x"}]')[1]["translations"][0][
        "text"
    ] == ("X")


def test_glossary_is_refused_without_attention(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.translator.attention, "reads_source", False)
    message = "glossary: the model has no attention, which places terms; remove glossary"
    answer = client.post("/v1/translate", q="a", glossary=[{"source": "a", "target": "b"}])
    assert answer == (400, {"error": message})


MISTAKES: dict[str, list[tuple[dict[str, Any], str]]] = {
    "/translate": [
        ({"q": None}, "q: missing"),
        ({"q": 3}, "q: not a text"),
        ({"q": ["a", 3]}, "q: not a text"),
        ({"q": "x" * 201}, "q: a text of 201 characters; send at most 200"),
        ({"q": ["x"] * 6}, "q: 6 texts; send at most 5"),
        ({"q": "\ud800"}, "q: has a lone surrogate"),
        ({"source": "fr"}, "fr to de: not supported; this server translates en to de"),
        ({"target": ["de"]}, "target: not a text"),
        ({"format": "pdf"}, "format=pdf: must be text or html"),
        ({"alternatives": 4}, "alternatives=4: must be at most 3"),
        *(({"alternatives": value}, "alternatives: not a whole number") for value in (-1, True, 1.5)),
        ({"q": "too long"}, "q: 'too long'…: a source of 9,999 pieces"),
    ],
    "/v1/translate": [
        ({"glosary": 1}, "glosary: unknown field of /v1/translate; did you mean glossary?"),
        ({"format": 1}, "format: unknown field of /v1/translate; send q, n_best, "),
        ({"alignments": "no"}, "alignments: "),
        ({"prefix": "no"}, "prefix='no': has characters"),
        ({"prefix": ["x"]}, "prefix: not a text"),
        ({"prefix": "x" * 201}, "prefix: a text of 201 characters"),
        (
            {"prefix": "x", "glossary": [{"source": "a"}]},
            "glossary: may change words of the prefix; remove one of them",
        ),
        ({"glossary": {"a": "b"}}, "glossary: not a list of terms"),
        ({"glossary": 0}, "glossary: not a list"),
        ({"glossary": "["}, "glossary: not a list"),
        ({"glossary": ["a"]}, "glossary: not a list"),
        ({"glossary": [{"source": "a"}] * 1001}, "glossary: 1,001 terms; send at most 1,000"),
        ({"glossary": [{}]}, "glossary[0]: source or target is not a text"),
        ({"glossary": [{"source": "a"}, {"source": "a", "target": None}]}, "glossary[1]: source or target"),
        ({"glossary": [{"source": "a", "text": "b"}]}, "glossary[0]: text: unknown"),
        ({"glossary": [{"source": "a" * 101}]}, "glossary[0]: longer than 100 characters"),
        ({"glossary": [{"source": "a", "target": "\ud800"}]}, "glossary[0]: has a lone surrogate"),
        ({"glossary": [{"source": "\u3000*", "target": "b"}]}, "glossary: ('\\u3000*', 'b'): not a source term"),
        ({"glossary": [{"source": "a"}, {"source": "a", "target": "c"}]}, "glossary[1]: 'a' has another target"),
    ],
    "/v1/score": [({"translation": 1}, "translation: unknown field of /v1/score; did you mean translations?")],
    "/v1/align": [
        ({"n_best": 1}, "n_best: unknown field of /v1/align; send q, translations, "),
        ({"translations": ["B", "A"]}, "translations: "),
    ],
    "/v1/memories": [({"alignment": 1}, "alignment: unknown field of /v1/memories; did you mean alignments?")],
}


@pytest.mark.parametrize(
    ("path", "fields", "problem"), [(path, *case) for path, cases in MISTAKES.items() for case in cases]
)
def test_mistakes_are_named(client: Client, path: str, fields: dict[str, Any], problem: str) -> None:
    pair = {"source": "en", "target": "de"} if path == "/translate" else {}
    status, answer = client.post(path, **{"q": "a", **pair, **fields})
    assert status == 400 and answer["error"].startswith(problem)
    assert client.translate("a") == "A"  # the server goes on


def test_server_goes_on_after_a_defect(client: Client) -> None:
    assert client.translate("crash") == (500, "internal error of the server; its log has the cause")
    assert client.translate("a") == "A"


def test_file_of_the_server_that_became_wrong_is_named_in_its_log_only(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    message = "the server cannot use one of its files; its log names it"
    assert client.translate("glossary") == (500, message)
    assert client.stream(q="glossary") == [("error", {"error": message})]
    for path, line in zip(("/translate", "stream"), capsys.readouterr().err.splitlines(), strict=True):
        assert line == f"error: {path}: /private/terms.tsv:1: 'a': has another target above; keep one of them"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "q: missing"),
        (b"{", "cannot be read"),
        (b"[1]", "not a JSON object"),
        (b"[" * 100_000, "cannot be read"),
    ],
)
def test_damaged_body_is_refused(client: Client, data: bytes, words: str) -> None:
    status, answer = client.send("/translate", data)
    assert status == 400 and words in answer["error"]


PART = '--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n%s\r\n'


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("application/json", '{"q": "a", "source": "en", "q": "b"}'),
        ("application/x-www-form-urlencoded", "q=a&q=b"),
        ("multipart/form-data; boundary=x", f"{PART % 'a'}{PART % 'b'}--x--"),
    ],
)
def test_a_field_that_is_given_twice_is_refused(client: Client, kind: str, data: str) -> None:
    status, answer = client.send("/translate", data.encode(), kind)
    assert status == 400 and answer["error"].startswith("q: given more than once; send it once")


def test_compressed_body_is_named(client: Client) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", client.port)
    for coding, status in (("gzip", 415), ("identity", 200), ("gzip", 415)):  # over one connection
        connection.request("POST", "/translate", b'{"q": "a", "target": "de"}', {"Content-Encoding": coding})
        answer = connection.getresponse()
        assert (b"send the body without compression" in answer.read()) == (status == 415)
        assert answer.status == status
    connection.close()


@pytest.mark.parametrize("path", ["/translate", "/detect", "/v1/translate", "/v1/score", "/v1/align", "/v1/memories"])
@pytest.mark.parametrize(
    ("kind", "data"), [("application/json", b'{"q": "\xc3"}'), ("application/x-www-form-urlencoded", b"q=%c3%28")]
)
def test_invalid_utf_8_is_refused_on_every_path(client: Client, path: str, kind: str, data: bytes) -> None:
    status, answer = client.send(path, data, kind)
    assert status == 400 and "cannot be read" in answer["error"]


def test_unknown_paths_and_methods(client: Client) -> None:
    assert client.send("/nothing")[0] == 404
    assert client.send("/translate")[0] == 405
    assert client.send("/v1/memories/x", method="DELETE")[0] == 404


def test_body_above_the_limit_is_refused_before_it_is_read(client: Client) -> None:
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        connection.sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 99000000\r\n\r\n")
        assert b" 413 " in connection.recv(100)


def test_body_without_a_length_is_refused_above_the_limit(client: Client) -> None:
    part = b"x" * (1 << 20)
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        connection.sendall(b"POST /v1/translate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(ConnectionError):  # the server need not read all of it
            for _ in range(10):
                connection.sendall(b"%x\r\n%b\r\n" % (len(part), part))
        assert b" 413 " in connection.recv(100)
    assert client.translate("a") == "A"


def test_slow_bodies_end_and_delay_nobody(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BODY_S", 1.0)
    slow = [socket.create_connection(("127.0.0.1", client.port)) for _ in range(64)]
    for connection in slow:
        connection.sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{")
    assert client.translate("a") == "A"
    for connection in slow:
        assert b" 408 " in connection.recv(100)
        connection.close()


def test_overload_is_refused_and_what_waits_is_answered() -> None:
    with serving(max_waiting=6) as client, ThreadPoolExecutor(12) as pool:
        client.translator.released.clear()
        first = pool.submit(client.translate, "a")
        wait_until(lambda: client.translator.batches)
        waiting = [pool.submit(client.translate, [f"{n} x", f"{n} y"]) for n in range(3)]
        wait_until(lambda: client.model.waiting == 6)
        assert client.translate("b") == (429, "too many lines wait; try again in some seconds")
        client.translator.released.set()
        assert first.result() == "A"
        assert [answer.result() for answer in waiting] == [[f"{n} X", f"{n} Y"] for n in range(3)]
        assert client.model.waiting == 0
        assert client.translate("\n".join("abcdefg")) == (413, "q: 7 lines; send at most 6 at once")


def test_a_long_request_does_not_delay_a_short_one() -> None:
    limits = reading.Limits(max_characters=None, max_texts=1000, max_alternatives=0)
    with serving(limits=limits, max_waiting=1000) as client, ThreadPoolExecutor(3) as pool:
        client.translator.released.clear()
        blocked = pool.submit(client.translate, "a")
        wait_until(lambda: client.translator.batches)
        long = pool.submit(client.translate, ["long"] * 500)
        wait_until(lambda: client.model.waiting == 500)
        short = pool.submit(client.translate, "short")
        wait_until(lambda: client.model.waiting == 501)
        client.translator.released.set()
        assert (blocked.result(), short.result(), long.result()) == ("A", "SHORT", ["LONG"] * 500)
        assert "short" in client.translator.batches[1]


def test_client_that_leaves_and_request_that_takes_too_long_are_dropped() -> None:
    with serving(timeout_s=2.0) as client, ThreadPoolExecutor(2) as pool:
        client.translator.released.clear()
        first = pool.submit(client.translate, "a")
        wait_until(lambda: client.translator.batches)
        leaving = http.client.HTTPConnection("127.0.0.1", client.port)
        body = json.dumps({"q": "left", "source": "en", "target": "de"})
        leaving.request("POST", "/translate", body, {"Content-Type": "application/json"})
        wait_until(lambda: client.model.waiting == 1)
        leaving.close()
        assert first.result()[0] == 503
        client.translator.released.set()
        assert client.translate("b") == "B"
        assert not any("left" in batch for batch in client.translator.batches)


def test_keys_and_rates() -> None:
    with serving(keys=["secret"], per_minute=4) as client:
        assert client.translate("a")[0] == 403
        assert client.translate("a", api_key="wrong")[0] == 403
        assert client.translate("a", api_key="secret") == "A"
        assert client.send("/frontend/settings")[1]["keyRequired"] is True
        client.translate("a", api_key="secret")
        assert client.translate("a", api_key="secret")[0] == 429
        assert client.send("/health") == (200, {"status": "ok"})


def test_clients_of_a_proxy_on_the_same_machine_are_counted_apart() -> None:
    with serving(per_minute=1) as client:
        for address, status in (("203.0.113.1", 200), ("203.0.113.2", 200), ("203.0.113.1", 429), (None, 200)):
            connection = http.client.HTTPConnection("127.0.0.1", client.port)
            forwarded = {"X-Forwarded-For": address} if address else {}
            connection.request("POST", "/translate?q=a&target=de", headers=forwarded)
            answer = connection.getresponse()
            answer.read()
            connection.close()
            assert answer.status == status


def test_scripts_of_named_pages_may_use_the_server() -> None:
    page = "https://example.org"
    with serving(origins=[f"{page}/"]) as client:
        for method, path, header in (
            ("POST", "/translate", "content-type"),
            ("POST", "/v1/translate", "authorization"),
            ("DELETE", "/v1/memories/x", "authorization"),
        ):
            connection = http.client.HTTPConnection("127.0.0.1", client.port)
            asked = {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": header}
            for origin, allowed in ((page, page), ("https://example.com", None)):
                connection.request("OPTIONS", path, headers={"Origin": origin, **asked})
                answer = connection.getresponse()
                answer.read()
                assert (answer.status == 200) == bool(allowed)
                assert answer.headers["Access-Control-Allow-Origin"] == allowed
            connection.close()


def test_each_pair_of_languages_has_its_model() -> None:
    with serving(pairs=[("en", "de"), ("de", "en"), ("en", "fr")]) as client:
        listed = {language["code"]: language["targets"] for language in client.send("/languages")[1]}
        assert listed == {"en": ["de", "fr"], "de": ["en"], "fr": []}
        assert client.translate("a", source="de", target="en") == "A"
        assert client.translate("a", source="de", target="fr")[0] == 400
        pytest.importorskip("py3langid")
        text = "Die Katze schläft auf dem alten Sofa."
        status, answer = client.post("/translate", q=text, source="auto", target="en")
        assert status == 200 and answer["detectedLanguage"]["language"] == "de"
        for form, same in (("text", f"{text}\n\n {text}"), ("html", f"<p>{text} &amp;<br> <b>{text}</b></p>")):
            for source in ("auto", "de"):  # the text is in the language that the client wants
                fields = {"source": source, "target": "de", "format": form, "alternatives": 1}
                status, answer = client.post("/translate", q=[same], **fields)
                assert (status, answer["translatedText"], answer["alternatives"]) == (200, [same], [[]])
                assert ("detectedLanguage" in answer) == (source == "auto")
        assert client.translate(text, source="fr", target="fr")[0] == 400


def test_named_models_of_one_pair() -> None:
    other = Upper()
    other.translate = lambda lines, *_, **__: [Translation(f"other {line}") for line in lines]  # type: ignore[method-assign]
    with serving(translators={"a": Upper(), "b": other}) as client:
        listed = client.send("/v1/models")[1]
        assert [(model["name"], model["source"], model["target"]) for model in listed["models"]] == [
            ("a", "en", "de"),
            ("b", "en", "de"),
        ]
        assert (
            listed["limits"]
            == {
                "characters": 200,
                "texts": 5,
                "n_best": 4,
                "weights": 4_000_000,
            }
            and listed["key_required"] is False
        )
        for fields, expected in (({}, "X"), ({"model": "a"}, "X"), ({"model": "b"}, "other x")):
            assert client.post("/v1/translate", q="x", **fields)[1]["translations"][0]["text"] == expected
        status, answer = client.post("/v1/translate", q="x", model="c")
        assert (status, answer["error"]) == (400, "model=c: unknown for en to de; choose from a, b")


def test_stream_has_the_answers_in_order_and_goes_on_after_a_line_that_fails() -> None:
    limits = reading.Limits(max_characters=None, max_texts=100, max_alternatives=3)
    lines = [*"abcdefg" * 5, "too long", "", "z"]
    with serving(limits=limits) as client:
        events = client.stream(q=lines, n_best=2)
        failed = ("error", {"index": 35, "error": "a source of 9,999 pieces"})
        assert events[35] == failed and events[-1] == ("done", {"lines": 38})
        answers = client.post("/v1/translate", q=[line for line in lines if line != "too long"], n_best=2)[1]
        streamed = [fields for name, fields in events if name == "translation"]
        assert [fields.pop("index") for fields in streamed] == [*range(35), 36, 37]
        assert streamed == answers["translations"]
        assert max(map(len, client.translator.batches[:3])) <= 16  # the first lines do not wait for the last


def test_stream_names_errors(client: Client) -> None:
    message = "internal error of the server; its log has the cause"
    assert client.stream(q=["a", "crash"]) == [("error", {"error": message})]
    assert client.post("/v1/translate", q="x" * 201, stream=True)[0] == 400
    with serving(timeout_s=0.5) as slow:
        slow.translator.released.clear()
        assert slow.stream(q="a") == [("error", {"error": "not finished within 0.5 s; send less text at once"})]


def test_client_that_leaves_a_stream_stops_its_work() -> None:
    limits = reading.Limits(max_characters=None, max_texts=1000, max_alternatives=0)
    with serving(limits=limits, max_waiting=1000) as client:
        client.translator.released.clear()
        leaving = http.client.HTTPConnection("127.0.0.1", client.port)
        body = json.dumps({"q": ["left"] * 500, "stream": True})
        leaving.request("POST", "/v1/translate", body, {"Content-Type": "application/json"})
        wait_until(lambda: client.translator.batches)
        leaving.getresponse().close()
        leaving.close()
        wait_until(lambda: client.model._requests[0].future.cancelled())
        client.translator.released.set()
        assert client.translate("b") == "B" and client.model.waiting == 0
        assert sum(map(len, client.translator.batches)) == 16 + 1


def test_reload_swaps_the_model_between_requests(client: Client) -> None:
    before = client.model.translator
    client.model._load = lambda: "new"  # type: ignore[assignment, return-value]
    client.server.reload()
    assert client.model.translator == "new"
    client.model.translator = before
    client.model._load = lambda: (_ for _ in ()).throw(OSError("gone"))
    client.server.reload()
    assert client.translate("a") == "A"


def test_description_names_every_path(client: Client) -> None:
    description = client.send("/openapi.json")[1]
    routes = {(route.path, method) for route in client.server.app().routes for method in route.methods}  # type: ignore[attr-defined]
    described = {(path, method.upper()) for path, methods in description["paths"].items() for method in methods}
    assert described == {(path, method) for path, method in routes if method != "HEAD"}


def test_metrics_count_requests(client: Client) -> None:
    client.translate("a")
    client.translate(None)
    connection = http.client.HTTPConnection("127.0.0.1", client.port)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    assert 'nmt_requests_total{path="/translate",status="200"} 1.0' in text
    assert 'nmt_requests_total{path="/translate",status="400"} 1.0' in text
    assert "nmt_translated_lines 1.0" in text
