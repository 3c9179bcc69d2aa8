"""The server answers LibreTranslate's clients and its own, names every mistake, and loses no request."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import libretranslatepy
import pytest
from commands.processes import wait_until
from hypothesis import given, settings
from hypothesis import strategies as st
from served import JSON, Client, Upper, serving
from starlette.requests import Request

from nmt.inference.translation import Translation
from nmt.search.options import SearchOptions
from nmt.server import fields as fields_module
from nmt.server.app import Languages, Server
from nmt.server.fields import Refused
from nmt.server.models import LINES_AT_ONCE, MAX_WORK, ServedModel, Work

FORM = "application/x-www-form-urlencoded"
PAIR = {"source": "en", "target": "de"}
PART = '--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
MULTIPART = "".join(PART % part for part in [("q", "ün"), ("source", "en"), ("target", "de")]) + "--x--\r\n"


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with serving() as client:
        yield client


def texts(answer: tuple[int, Any]) -> list[str]:
    status, fields = answer
    assert status == 200, fields
    return [best["text"] for best in fields["translations"]]


def test_libretranslatepy_works_unchanged(client: Client) -> None:
    api = libretranslatepy.LibreTranslateAPI(client.url)
    assert api.translate("a dog & a café", "en", "de") == "A DOG & A CAFÉ"
    assert [language["code"] for language in api.languages()] == ["en", "de"]
    assert api.detect("a dog") == [{"language": "en", "confidence": 0.0}]


@pytest.mark.parametrize(
    ("query", "body", "kind", "expected"),
    [
        # LibreTranslate's own page, with a field of a later version.
        ("", {"q": "a", "format": "text", "api_key": "", "secret": "x", "alternatives": 0, **PAIR}, JSON, "A"),
        # Weblate: a JSON list, with an empty key.
        ("", {"api_key": "", "q": ["a", "", "b"], **PAIR}, JSON, ["A", "", "B"]),
        # deep-translator: a query without a body.
        ("?q=a+b&source=en&target=de&format=text", "", "text/plain", "A B"),
        # The npm package libretranslate: JSON with another name of the key.
        ("", {"q": "a", "source": "auto", "target": "de", "format": "text", "apiKey": ""}, JSON, "A"),
        ("", MULTIPART, "multipart/form-data; boundary=x", "ÜN"),
        ("", "q=a&q=b&target=de", FORM, ["A", "B"]),
        # curl -d '{"q": …}' without a Content-Type.
        ("", {"q": "a", **PAIR}, FORM, "A"),
    ],
)
def test_shapes_of_other_clients(client: Client, query: str, body: Any, kind: str, expected: Any) -> None:
    data = body if isinstance(body, str) else json.dumps(body)
    status, answer = client.send(f"/translate{query}", data.encode(), kind)
    assert status == 200 and answer["translatedText"] == expected


def test_html_is_translated_in_sentences_with_their_tags(client: Client) -> None:
    page = "<p>a <b>dog</b> &lt;</p>\n<pre>x</pre>y"
    assert client.translate(page, format="html") == "<p>A <B>DOG</B> &LT;</p>\n<pre>x</pre>Y"
    assert client.translator.markup and client.translator.batches[-1] == ["a <b>dog</b> &lt;", "y"]
    assert client.translate("a") == "A" and not client.translator.markup


def test_alternatives_and_detected_language(client: Client) -> None:
    fields = {"q": "a\n\nb", "source": "auto", "target": "de", "alternatives": "2"}
    detected = {"language": "en", "confidence": 0.0}
    answer = {"translatedText": "A\n\nB", "alternatives": ["A!\n\nB!", "A!!\n\nB!!"], "detectedLanguage": detected}
    assert client.post("/translate", **fields) == (200, answer)
    answer = {"translatedText": ["A", "B"], "alternatives": [["A!"], ["B!"]], "detectedLanguage": [detected] * 2}
    assert client.post("/translate", **{**fields, "q": ["a", "b"], "alternatives": 1}) == (200, answer)


def test_cut_translations_are_named(client: Client) -> None:
    for q, rows in (["a", "endless", "b"], [1]), ("a\nendless", [0]), ("a", []):
        warnings = client.post("/translate", q=q)[1].get("warnings", [])
        assert [warning.split(":")[0] for warning in warnings] == [f"q[{row}]" for row in rows]
    answer = client.post("/v1/translate", q=["a", "endless"])[1]
    assert [best["cut"] for best in answer["translations"]] == [False, True]


def test_own_interface_takes_json_and_forms(client: Client) -> None:
    assert texts(client.post("/v1/translate", q=["a", "b"], prefix="x ")) == ["X A", "X B"]
    for answer in (
        client.post("/v1/translate", q="a", n_best=2, alignments=False, model=None, **PAIR),
        client.form("/v1/translate", q="a", n_best="2", alignments="false", model="", prefix=""),
    ):
        [best] = answer[1]["translations"]
        assert [other["text"] for other in best["n_best"]] == ["A", "A!"] and "links" not in best


def test_each_request_has_its_own_glossary(client: Client) -> None:
    glossaries = [[{"source": "a", "target": target}] for target in "xyz"] + [[], None, "", [{"source": "b"}]]
    client.translator.released.clear()
    with ThreadPoolExecutor(20) as pool:
        answers = [
            pool.submit(client.post, "/v1/translate", q=["a", "b a"], glossary=terms) for terms in glossaries * 2
        ]
        wait_until(lambda: client.model.waiting > 20)
        client.translator.released.set()
        found = [texts(answer.result()) for answer in answers]
    assert found == ([[target, f"B {target}"] for target in "XYZ"] + [["A", "B A"]] * 3 + [["A", " A"]]) * 2
    assert texts(client.form("/v1/translate", q="a", glossary='[{"source": "a", "target": "x"}]')) == ["X"]


ONLY_IN_DETAIL: dict[str, Any] = {
    "n_best": 2,
    "alignments": True,
    "weights": False,
    "slots": True,
    "stream": "1",
    "sentences": False,
    "prefix": "x",
    "glossary": [{"source": "a"}],
}
REFUSED: dict[str, list[tuple[dict[str, Any], str]]] = {
    "/translate": [
        *(({"q": q}, "q: ") for q in (None, "", [], 3, ["a", 3], "x" * 201, ["a", "x" * 201], ["x"] * 101, "too long")),
        ({"source": "fr"}, "fr to de: not supported; this server"),
        *(({"target": target}, "target: ") for target in (["de"], None)),
        ({"format": "pdf"}, "format: "),
        *(({"alternatives": count}, "alternatives: ") for count in (11, -1, 1.5, "x")),
        *(({field: value}, f"{field}: ") for field, value in ONLY_IN_DETAIL.items()),
    ],
    "/detect": [({"q": 1}, "q: ")],
    "/v1/translate": [
        ({"glosary": 1}, "glosary: unknown field; did you mean glossary?"),
        ({"format": "html"}, "format: "),
        ({"n_best": 11}, "n_best: "),
        ({"model": "c"}, "model=c: "),
        ({"alignments": 3}, "alignments: "),
        ({"slots": True}, "slots: "),
        *(({"prefix": prefix}, "prefix") for prefix in ("no", ["x"], "x" * 201)),
        ({"prefix": "x", "glossary": [{"source": "a"}]}, "prefix: "),
        *(({"glossary": glossary}, "glossary: ") for glossary in ({"a": "b"}, 3, "[", [{"source": "a"}] * 1001)),
        *(
            ({"glossary": [{"source": "a"}, term]}, "glossary[1]: ")
            for term in ("a", {}, {"source": "a", "target": None}, {"source": "a", "x": "b"}, {"source": "a" * 101})
        ),
        ({"glossary": [{"source": "\u3000*", "target": "b"}]}, "glossary: "),
        ({"glossary": [{"source": "a"}, {"source": "a", "target": "c"}]}, "glossary: "),
        ({"q": ["x" * 200] * 5, "weights": True, "n_best": 10}, "weights: "),
    ],
}


@pytest.fixture(scope="module")
def two_targets() -> Iterator[Client]:
    with serving(pairs=[("en", "de"), ("en", "es")]) as client:
        yield client


@pytest.mark.parametrize(
    ("path", "fields", "problem"), [(path, *case) for path, cases in REFUSED.items() for case in cases]
)
def test_mistakes_are_named(
    path: str, fields: dict[str, Any], problem: str, two_targets: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.server.answers.MAX_WEIGHTS", 1_000_000)
    status, error = two_targets.post(path, **{"q": "a", **PAIR, **fields})
    assert status == 400 and error.startswith(problem), error
    assert two_targets.translate("a") == "A"  # the server goes on


@pytest.mark.parametrize(
    ("path", "fields"),
    [("/translate", {"format": "html"}), ("/v1/translate", {"glossary": [{"source": "a", "target": "b"}]})],
)
def test_tags_and_terms_need_attention(
    path: str, fields: dict[str, Any], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client.translator.attention, "reads_source", False)
    status, error = client.post(path, q="a", **fields)
    assert status == 400 and error.startswith(*fields)


def test_server_goes_on_after_a_defect_and_shows_no_file(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    for line, reason in (("crash", "broken"), ("glossary", "/private/terms.tsv")):
        status, error = client.translate(line)
        assert status == 500 and reason not in error
        assert client.stream(q=["a", line]) == [("error", {"error": error})]
        assert capsys.readouterr().err.count(reason) == 2
    assert client.translate("a") == "A"


@pytest.mark.parametrize("path", ["/translate", "/detect", "/v1/translate"])
@pytest.mark.parametrize(
    ("data", "headers", "status"),
    [
        (b"", {}, 400),
        (b"{", {}, 400),
        (b"[1]", {}, 400),
        (b"[" * 100_000, {}, 400),
        (b'{"q": "\xc3"}', {}, 400),
        (b'{"q": "\\ud800"}', {}, 400),
        (b"q=%c3%28", {"kind": FORM}, 400),
        (b'{"q": "a"}', {"Content-Encoding": "gzip"}, 415),
    ],
)
def test_damaged_body_is_refused(client: Client, path: str, data: bytes, headers: dict[str, str], status: int) -> None:
    assert client.send(path, data, **headers)[0] == status


@pytest.mark.parametrize("length", [b"Content-Length: 99000000", b"Transfer-Encoding: chunked"])
def test_body_above_the_limit_is_not_read(client: Client, length: bytes) -> None:
    part = b"x" * (1 << 20)
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        connection.sendall(b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\n" + length + b"\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(10 if b"chunked" in length else 0):
                connection.sendall(b"%x\r\n%b\r\n" % (len(part), part))
        assert b" 413 " in connection.recv(100)


def test_slow_bodies_end_and_delay_nobody(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fields_module, "BODY_S", 1.0)
    slow = [socket.create_connection(("127.0.0.1", client.port)) for _ in range(64)]
    for connection in slow:
        connection.sendall(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{")
    assert client.translate("a") == "A"
    for connection in slow:
        assert b" 408 " in connection.recv(100)
        connection.close()


def test_overload_is_refused_and_what_waits_is_answered() -> None:
    with serving(max_waiting=6) as client, ThreadPoolExecutor(12) as pool:
        first = client.hold(pool)
        waiting = [pool.submit(client.translate, [f"{n} x", f"{n} y"]) for n in range(3)]
        wait_until(lambda: client.model.waiting == 6)
        assert client.translate("b")[0] == 429
        client.translator.released.set()
        assert first.result() == "A"
        assert [answer.result() for answer in waiting] == [[f"{n} X", f"{n} Y"] for n in range(3)]
        assert client.model.waiting == 0
        assert client.translate("\n".join("abcdefg"))[0] == 413


def test_a_long_request_does_not_delay_a_short_one() -> None:
    with serving(max_waiting=1000) as client, ThreadPoolExecutor(3) as pool:
        blocked = client.hold(pool)
        long = pool.submit(client.translate, ["long"] * 100)
        wait_until(lambda: client.model.waiting == 100)
        short = pool.submit(client.translate, "short")
        wait_until(lambda: client.model.waiting == 101)
        client.translator.released.set()
        assert (blocked.result(), short.result(), long.result()) == ("A", "SHORT", ["LONG"] * 100)
        assert "short" in client.translator.batches[1]


def test_short_request_is_answered_while_a_long_one_is_translated() -> None:
    with serving(max_characters=5000, max_waiting=1000) as client, ThreadPoolExecutor(2) as pool:
        client.translator.released_long.clear()
        long = [pool.submit(client.translate, lines) for lines in (["long " * 900] * 50, ["x" * 2001] + ["x"] * 40)]
        wait_until(lambda: client.translator.batches)
        assert client.translate(["a", "b"]) == ["A", "B"] and not any(answer.done() for answer in long)
        client.translator.released_long.set()
        assert [len(answer.result()) for answer in long] == [50, 41]


@given(st.lists(st.lists(st.integers(0, 2000), min_size=1, max_size=100), min_size=1, max_size=6), st.booleans())
@settings(max_examples=30, deadline=None)
def test_batches_are_limited_in_lines_and_work(requests: list[list[int]], terms: bool) -> None:
    translator: Any = Upper()
    model = ServedModel(translator, max_waiting=1000)
    work = Work(SearchOptions(beam_size=3, terms={"a": "b"} if terms else None))
    lines = [[f"{number:03}" + "x" * length for number, length in enumerate(of_request)] for of_request in requests]
    translator.released.clear()
    futures = [model.submit(of_request, work) for of_request in lines]
    translator.released.set()
    found = [[best.text for best in future.result() if isinstance(best, Translation)] for future in futures]
    model.close()
    assert found == [[line.upper() for line in of_request] for of_request in lines] and model.waiting == 0
    assert sorted(sum(translator.batches, [])) == sorted(sum(lines, []))
    for batch in translator.batches:
        assert len(batch) == 1 or (len(batch) <= LINES_AT_ONCE and sum(map(work.weight, batch)) <= MAX_WORK)


@pytest.mark.parametrize("path", ["/translate", "/v1/translate"])
def test_client_that_leaves_and_request_that_takes_too_long_are_dropped(path: str) -> None:
    with serving(max_waiting=1000, timeout_s=2.0) as client, ThreadPoolExecutor(2) as pool:
        first = client.hold(pool)
        leaving = http.client.HTTPConnection("127.0.0.1", client.port)
        stream = {"stream": True} if path == "/v1/translate" else {}
        leaving.request("POST", path, json.dumps({"q": ["left"] * 100, **stream}), {"Content-Type": JSON})
        wait_until(lambda: client.model.waiting == 100)
        if stream:
            leaving.getresponse().close()
        leaving.close()
        assert first.result()[0] == 503
        client.translator.released.set()
        assert client.translate("b") == "B" and client.model.waiting == 0
        assert not any("left" in batch for batch in client.translator.batches)


def test_keys() -> None:
    with serving(keys=["secret"]) as client:
        assert client.translate("a")[0] == client.translate("a", api_key="wrong")[0] == 403
        assert client.translate("a", api_key="secret") == "A"
        body = json.dumps({"q": "a"}).encode()
        assert texts(client.send("/v1/translate", body, Authorization="Bearer secret")) == ["A"]
        assert client.send("/frontend/settings")[1]["keyRequired"] is True
        assert client.send("/health") == (200, {"status": "ok"})


@pytest.mark.parametrize(
    ("hosts", "host", "allowed"),
    [
        *(([], host, True) for host in ("localhost:9", "LOCALHOST", "127.0.0.1", "127.0.0.1:8000", "[::1]:80", "")),
        *(
            ([], host, False)
            for host in ("evil.example", "evil.example:80", "localhost.evil.example", "10.0.0.1", "x:")
        ),
        *(([], host, False) for host in ("127.0.0.1.evil.example", "evil.example:localhost", "[::2]", "[::1].x", "*")),
        (["Example.org", "10.0.0.1"], "example.ORG:443", True),
        (["Example.org", "10.0.0.1"], "10.0.0.1", True),
        (["Example.org", "10.0.0.1"], "a.example.org", False),
        *((["0.0.0.0"], host, True) for host in ("10.0.0.1:80", "[fe80::1]:80", "localhost")),
        (["0.0.0.0"], "evil.example", False),
        (["::"], "10.0.0.1", True),
        (["*"], "evil.example", True),
    ],
)
def test_requests_for_foreign_hosts_are_refused(hosts: list[str], host: str, allowed: bool) -> None:
    server = Server(languages=Languages({}, SearchOptions()), hosts=hosts)
    request = Request({"type": "http", "headers": [(b"host", host.encode())]})
    with contextlib.nullcontext() if allowed else pytest.raises(Refused):
        server.require_known_host(request)


@pytest.mark.parametrize("path", ["/", "/translate?q=a&target=de", "/health", "/metrics", "/v1/models"])
def test_no_path_answers_a_foreign_host(client: Client, path: str) -> None:
    status, error = client.send(path, b"" if "?" in path else None, Host="evil.example")
    assert status == 400 and error.startswith("Host=evil.example: ")
    assert client.send(path, b"" if "?" in path else None, Host="localhost:1")[0] == 200


def test_scripts_of_named_pages_may_use_the_server() -> None:
    page = "https://example.org"
    with serving(origins=[f"{page}/"]) as client:
        for origin, allowed in ((page, page), ("https://example.com", None)):
            connection = http.client.HTTPConnection("127.0.0.1", client.port)
            headers = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
            connection.request("OPTIONS", "/translate", headers={"Origin": origin, **headers})
            answer = connection.getresponse()
            assert (answer.status == 200) == bool(allowed)
            assert answer.headers["Access-Control-Allow-Origin"] == allowed
            connection.close()


def test_each_pair_of_languages_has_its_model() -> None:
    with serving(pairs=[("en", "de"), ("de", "en"), ("en", "fr")]) as client:
        listed = {language["code"]: language["targets"] for language in client.send("/languages")[1]}
        assert listed == {"en": ["de", "fr"], "de": ["en"], "fr": []}
        assert client.translate("a", source="de", target="en") == "A"
        assert client.translate("a", source="de", target="fr")[0] == 400
        text = "Die Katze schläft auf dem alten Sofa."
        tagged = f"<style>the {{}}</style><p>{text.replace(' ', ' <b class=the>')}"
        for q in (text, tagged):
            detected = client.post("/detect", q=q)[1]
            assert detected[0]["language"] == "de" and detected[0]["confidence"] > 50
        for form, same in (("text", f"{text}\n\n {text}"), ("html", tagged)):
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
        assert [model["name"] for model in listed["models"]] == ["a", "b"] and listed["key_required"] is False
        for fields, expected in (({}, "X"), ({"model": "a"}, "X"), ({"model": "b"}, "other x")):
            assert texts(client.post("/v1/translate", q="x", **fields)) == [expected]


def test_stream_has_the_answers_in_order_and_goes_on_after_a_line_that_fails() -> None:
    lines = [*"abcdefg" * 5, "too long", "", "z"]
    with serving() as client:
        events = client.stream(q=lines, n_best=2)
        assert [(name, fields.get("index")) for name, fields in events if name != "translation"] == [
            ("error", 35),
            ("done", None),
        ]
        answers = client.post("/v1/translate", q=[line for line in lines if line != "too long"], n_best=2)[1]
        streamed = [fields for name, fields in events if name == "translation"]
        assert [fields.pop("index") for fields in streamed] == [*range(35), 36, 37]
        assert streamed == answers["translations"]
        assert max(map(len, client.translator.batches[:3])) <= 16  # the first lines do not wait for the last


def test_stream_ends_in_time_and_metrics_count_requests() -> None:
    with serving(timeout_s=0.5) as client:
        client.translate("a")
        client.translate(None)
        client.translator.released.clear()
        [(name, fields)] = client.stream(q="a")
        assert name == "error" and "index" not in fields
        text = client.send("/metrics")[1]
    for status in (200, 400):
        assert f'nmt_request_seconds_count{{path="/translate",status="{status}"}} 1.0' in text
    assert "nmt_translated_lines_total 1.0" in text and "nmt_waiting_lines 0.0" in text
    assert 'nmt_model_info{name="upper",source="en",target="de",version=""} 1.0' in text


def test_page_needs_no_other_host(client: Client) -> None:
    with urllib.request.urlopen(client.url + "/") as answer:
        page, policy = answer.read().decode(), answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe" not in policy
    assert set(re.findall(r"https?://[^\s\"']+", page)) == {"http://www.w3.org/2000/svg"}  # the name of a namespace
