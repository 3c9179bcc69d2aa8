"""Stored memories answer as their texts do, within their limits, and slots are those of the alignment."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from builders import save_random, tiny_config
from served import Client, serving
from server.word_models import TOKENIZER, tiny_translator

from nmt.alignment.word_weights import merge_pieces, word_weights
from nmt.inference import memories
from nmt.inference.ensemble import Ensemble
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.server import answers
from nmt.server.answers import Details, translation_json
from nmt.server.memories import Memories
from nmt.server.reading import Limits, Refused

TEXTS = ["a small dog sees red houses", "", "two cats", "cats see red dogs sleep here today " * 6]
KINDS = ["MemoryAttention", "BahdanauAttention", "CovarianceAttention", "NoAttention"]


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    stored = Memories(limit=2, max_bytes=1 << 20, minutes=60)
    limits = Limits(max_characters=500, max_texts=5, max_alternatives=3)
    translators = {"first": tiny_translator(request.param), "second": tiny_translator("BahdanauAttention", seed=5)}
    with serving(translators=translators, limits=limits, memories=stored) as client:
        yield client


def require_equal(answers: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    for answer, other in zip(answers, expected, strict=True):
        for best, same in zip(answer.get("n_best", [answer]), other.get("n_best", [other]), strict=True):
            rounded = {"score", "log_prob", "confidence", "word_confidences"}  # batches round differently
            for key in rounded & best.keys():
                assert best.pop(key) == pytest.approx(same.pop(key), rel=1e-5, abs=1e-5)
            assert best == same


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("model", ["first", "second"])
def test_memory_answers_as_its_text(client: Client, aligned: bool, model: str) -> None:
    stored = client.post("/v1/memories", q=TEXTS, model=model, alignments=aligned)[1]
    direct = client.post("/v1/translate", q=TEXTS, model=model, n_best=3, alignments=aligned)[1]["translations"]
    answers = client.post("/v1/translate", memory=stored["id"], n_best=3)[1]["translations"]
    if not aligned:  # a memory without a trace does not keep the pieces of its text
        for answer in direct:
            for best in answer["n_best"]:
                best["source_tokens"] = []
    require_equal(answers, [{**answer, **answer["n_best"][0]} for answer in direct])
    targets = ["cats", "two dogs", "a", "red"]
    assert client.post("/v1/score", memory=stored["id"], translations=targets)[1]["log_probs"] == [
        client.post("/v1/score", q=text or " ", translations=target, model=model)[1]["log_probs"][0]
        for text, target in zip(TEXTS, targets, strict=True)
    ]


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"q": "a"}, 400, "q: the memory has a text and a model; remove q, or memory"),
        ({"model": "first"}, 400, "model: the memory has a text and a model"),
        ({"stream": True}, 400, "stream=true: a memory is translated at once"),
        ({"weights": True}, 400, "weights: a memory does not keep the words"),
        ({"alignments": True}, 400, "alignments: this memory was stored without them"),
        ({"memory": "x"}, 404, "memory: unknown"),
        ({"memory": 3}, 400, "memory: not a text"),
    ],
)
@pytest.mark.parametrize("client", ["MemoryAttention"], indirect=True)
def test_mistakes_with_memories(client: Client, fields: dict[str, Any], status: int, words: str) -> None:
    stored = client.post("/v1/memories", q="a dog")[1]
    answer = client.post("/v1/translate", **{"memory": stored["id"], **fields})
    assert answer[0] == status and words in answer[1]["error"]
    assert client.post("/v1/score", memory=stored["id"], translations=["a", "b"])[0] == 400


@pytest.mark.parametrize("client", ["MemoryAttention"], indirect=True)
def test_answers_do_not_name_the_glossary_of_the_server(client: Client) -> None:
    stored = client.post("/v1/memories", q="a dog", model="second")[1]
    options = SearchOptions(glossary="/home/a user/terms.tsv")
    client.server.languages = client.server.languages._replace(options=options)
    for field, fields in (
        ("memory", {"memory": stored["id"]}),
        ("prefix", {"q": "a", "prefix": "x", "model": "second"}),
    ):
        fix = f"remove {field}, or ask the operator to remove search.glossary"
        answer = {"error": f"{field}: cannot be combined with search.glossary of this server; {fix}"}
        assert client.post("/v1/translate", **fields) == (400, answer)


def test_memories_end(client: Client) -> None:
    names = [client.post("/v1/memories", q="a dog")[1]["id"] for _ in range(3)]
    status = [client.post("/v1/translate", memory=name)[0] for name in names]
    assert status == [404, 200, 200] and len(set(names)) == 3
    assert client.send(f"/v1/memories/{names[1]}", method="DELETE") == (200, {"status": "ok"})
    assert client.send(f"/v1/memories/{names[1]}", method="DELETE")[0] == 404
    assert client.post("/v1/translate", memory=names[1])[0] == 404
    client.model.translator = tiny_translator("MemoryAttention")  # as SIGHUP does
    assert client.post("/v1/translate", memory=names[2])[0] == 404


def test_too_large_memory_is_refused_before_all_of_it_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = list[str]()
    encode_line = memories.encode_line
    monkeypatch.setattr(
        memories, "encode_line", lambda _, line, **options: encoded.append(line) or encode_line(_, line, **options)
    )
    translators = {"memory": tiny_translator("MemoryAttention")}
    with serving(translators=translators, memories=Memories(limit=2, max_bytes=5000, minutes=60)) as client:
        size = client.post("/v1/memories", q="a dog")[1]["bytes"]
        status, answer = client.post("/v1/memories", q=["a dog"] * 5)
        assert status == 413 and "more than this server stores; send less text at once" in answer["error"]
        assert len(encoded) == 1 + 5000 // size + 1
    with serving(translators=translators) as client:
        assert client.post("/v1/memories", q="a")[1]["error"].startswith("memories: this server stores none")


def test_limits_of_memories(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    memories = Memories(limit=3, max_bytes=100, minutes=2)

    def add(size: int) -> str:
        return memories.add(SimpleNamespace(size=size))  # type: ignore[arg-type]

    def are_stored(*names: str) -> list[bool]:
        return [name in memories._stored for name in names]

    first, second, third = add(10), add(20), add(30)
    memories.get(first)
    fourth = add(10)  # one too many
    assert are_stored(first, second, third, fourth) == [True, False, True, True]
    fifth = add(85)  # too many bytes
    assert are_stored(first, third, fourth, fifth) == [False, False, True, True] and memories.size == 95
    with pytest.raises(Refused, match="its memory has 101 bytes, more than this server stores"):
        add(101)
    now = 119.0
    memories.get(fifth)
    now = 121.0
    with pytest.raises(Refused, match="memory: unknown"):
        memories.get(fourth)
    assert memories.get(fifth).size == 85 and len(memories) == 1


@pytest.mark.parametrize("client", ["MemoryAttention"], indirect=True)
def test_slots_and_weights_of_words(client: Client) -> None:
    [answer] = client.post("/v1/translate", q=TEXTS[0], weights=True, slots=True)[1]["translations"]
    weights = answer["weights"]
    for side, text in (("source", TEXTS[0]), ("target", answer["text"])):
        assert weights[side] == text.split() and np.shape(answer["slots"][side]) == (len(weights[side]), 4)
    [pair] = client.model.translator.score([(TEXTS[0], answer["text"])])
    expected = merge_pieces(pair.alignment[:-1, :-1], pair.source_words, pair.target_words)
    np.testing.assert_allclose(weights["values"], expected, atol=1e-4)


def test_parts_that_a_model_does_not_have(client: Client) -> None:
    first, second = client.send("/v1/models")[1]["models"]
    kind = client.model.translator.attention.name
    assert (first["slots"], first["alignments"]) == (kind == "Memory", kind != "No")
    assert not second["slots"] and first["memories"] and second["memories"]
    for model in (first, second):
        status, answer = client.post("/v1/translate", q=["a dog", ""], slots=True, model=model["name"])
        assert status == (200 if model["slots"] else 400)
        assert model["slots"] or answer["error"].startswith(f"slots: {model['attention']} attention has n")
    status, answer = client.post("/v1/translate", q=["a dog", ""], weights=True)
    values = answer["translations"][0]["weights"]["values"]
    assert status == 200 and (np.max(values) > 0) == first["alignments"] and len(values[0]) == 2
    status, answer = client.post("/v1/align", q="a dog", translations="two cats")
    assert status == (200 if first["alignments"] else 400) and ("the model has no attention" in str(answer)) == (
        kind == "No"
    )


def test_a_pair_that_is_too_long_is_named() -> None:
    with serving(translators={"low": tiny_translator("LowRankAttention")}) as client:
        for path in ("/v1/score", "/v1/align"):
            status, answer = client.post(path, q=["a", "日" * 110], translations=["a", "a"])
            assert status == 400 and "q: '日日" in answer["error"] and "holds at most 300;" in answer["error"]


def test_weights_of_long_texts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MAX_WEIGHTS", 100)
    with serving(translators={"memory": tiny_translator("MemoryAttention")}) as client:
        for fields, status in (({"q": "a dog sees", "n_best": 1}, 200), ({"q": "a dog sees", "n_best": 2}, 400)):
            assert client.post("/v1/translate", **fields, weights=True)[0] == status
        answer = client.post("/v1/translate", q=["a dog"] * 5, slots=True)[1]
        assert answer["error"].startswith("slots: the texts are too long: n_best times the sum of")
        assert "is 125, above 100; send shorter texts, or remove slots" in answer["error"]
        assert client.post("/v1/translate", q="a dog sees red houses")[0] == 200


def test_slots_are_those_of_the_pieces_that_were_read() -> None:
    """Placeholders and terms change the pieces of a line before the model reads them."""
    translator = tiny_translator("MemoryAttention")
    line = "a {name} dog sees {count} cats"
    [best] = translator.translate([line], SearchOptions(keep_placeholders=True))
    answer = translation_json(translator, line, best, Details(alignments=True, weights=True, slots=True))
    write, read = (np.array(answer["slots"][side]) for side in ("source", "target"))
    shares = read @ write.T
    raw = word_weights(best)
    assert answer["weights"]["source"] == line.split() and shares.shape == raw.shape
    np.testing.assert_allclose(
        shares / shares.sum(1, keepdims=True), raw / raw.sum(1, keepdims=True), rtol=0.05, atol=1e-3
    )


@pytest.mark.thorough
def test_graphs_have_neither_memories_nor_slots(tmp_path: Path) -> None:
    config = tiny_config({"_target_": "nmt.attention.MemoryAttention", "slots": 4}, size=8)
    save_random(tmp_path, config, TOKENIZER, engines=["onnx"])
    translators = {"graphs": Translator.load(tmp_path, engine="onnx", threads=1)}
    translators["deployed"] = Translator.load(tmp_path / "onnx", threads=1)
    with serving(translators=translators, memories=Memories(limit=2, max_bytes=5000, minutes=60)) as client:
        for path in ("/v1/score", "/v1/align"):
            assert client.post(path, q="a", translations="a")[0] == 200
            status, answer = client.post(path, q="a", translations="a", model="deployed")
            assert status == 400 and "an export, which only translates" in answer["error"]
        model = client.send("/v1/models")[1]["models"][0]
        assert (model["alignments"], model["slots"], model["memories"]) == (True, False, False)
        status, answer = client.post("/v1/memories", q="a")
        assert status == 400 and answer["error"].startswith("memories: this model runs ONNX graphs")
        status, answer = client.post("/v1/translate", q="a", slots=True)
        assert status == 400 and answer["error"].startswith("slots: this model runs ONNX graphs")
        assert "weights" in client.post("/v1/translate", q="a dog", weights=True)[1]["translations"][0]


def test_ensemble_translates_and_refuses_what_needs_a_single_model() -> None:
    single = [tiny_translator("MemoryAttention"), tiny_translator("BahdanauAttention", seed=5)]
    both = Translator(Ensemble([translator.loaded_model for translator in single]), check_text=False)
    stored = Memories(limit=2, max_bytes=1 << 20, minutes=60)
    limits = Limits(max_characters=500, max_texts=5, max_alternatives=3)
    glossary = [{"source": "cats", "target": "dogs"}]
    with serving(translators={"both": both, "single": single[0]}, limits=limits, memories=stored) as client:
        answers = client.post("/v1/translate", q=TEXTS, n_best=2, weights=True, glossary=glossary)[1]["translations"]
        expected = both.translate(TEXTS, SearchOptions(n_best=2, terms={"cats": "dogs"}))
        assert [answer["text"] for answer in answers] == [best.text for best in expected]
        assert "dogs" in answers[2]["text"] and answers[0]["weights"]["values"]
        ensemble, model = client.send("/v1/models")[1]["models"]
        assert (ensemble["slots"], ensemble["memories"], model["memories"]) == (False, False, True)
        for path, fields in (
            ("/v1/translate", {"slots": True}),
            ("/v1/score", {"translations": "a"}),
            ("/v1/align", {"translations": "a"}),
            ("/v1/memories", {}),
        ):
            status, answer = client.post(path, q="a", **fields)
            assert status == 400 and "ensemble" in answer["error"] and "\n" not in answer["error"]
        assert client.post("/v1/score", q="a", translations="a", model="single")[0] == 200
