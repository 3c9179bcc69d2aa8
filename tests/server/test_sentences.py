"""A server translates each sentence on its own, unless it or a request says otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from served import Client, serving
from server.word_models import tiny_translator

from nmt.search.options import SearchOptions
from nmt.server.answers import CUT

FIRST, SECOND = "A small dog sees red houses.", "Two cats sleep here!"
TEXT = f"{FIRST}  {SECOND}\n\nBlue birds fly.\n  {SECOND} Birds fly away. \n"
EN = SearchOptions(sentences="en")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    translators = {name: tiny_translator(f"{name}Attention") for name in ("Memory", "Bahdanau", "StretchMemory")}
    with serving(translators=translators, options=EN) as client:
        yield client


def texts(client: Client, lines: list[str], options: SearchOptions = EN, **settings: Any) -> list[str]:
    return client.model.translator.texts(lines, options, **settings)


def test_paragraphs_are_translated_by_sentences(client: Client) -> None:
    lines = [f"{FIRST}  {SECOND}", "Blue birds fly.", f"{SECOND} Birds fly away."]
    first, second, third = texts(client, lines)
    assert first == "  ".join(texts(client, [FIRST, SECOND], SearchOptions()))
    assert client.translate(TEXT) == f"{first}\n\n{second}\n  {third} \n"
    assert client.translate([TEXT, FIRST])[0] == client.translate(TEXT)
    page = f"<p>{FIRST} <b>{SECOND} Birds fly.</b></p>"
    [line] = texts(client, [page[3:-4]], markup=True)
    assert client.translate(page, format="html") == f"<p>{line}</p>"


@pytest.mark.parametrize("model", ["Memory", "StretchMemory"])
def test_slots_and_weights_are_those_of_the_sentences(client: Client, model: str) -> None:
    """Slots that only one of two sentences has are zeros in the other one."""
    asked = {"weights": True, "slots": True, "n_best": 2, "model": model}
    joined = client.post("/v1/translate", q=f"{FIRST} {SECOND}", **asked)[1]["translations"][0]
    parts = client.post("/v1/translate", q=[FIRST, SECOND], **asked)[1]["translations"]
    for both, first, second in zip(joined["n_best"], *(part["n_best"] for part in parts), strict=True):
        assert both["text"] == f"{first['text']} {second['text']}"
        assert both["score"] == pytest.approx(first["score"] + second["score"], rel=1e-4)
        for key in ("source", "target"):
            assert both["weights"][key] == first["weights"][key] + second["weights"][key]
            rows = first["slots"][key] + second["slots"][key]
            size = max(map(len, rows))
            assert both["slots"][key] == [row + [0] * (size - len(row)) for row in rows]
        blocks = [np.array(part["weights"]["values"]) for part in (first, second)]
        expected = np.zeros(np.sum([block.shape for block in blocks], axis=0))
        expected[: blocks[0].shape[0], : blocks[0].shape[1]] = blocks[0]
        expected[blocks[0].shape[0] :, blocks[0].shape[1] :] = blocks[1]
        np.testing.assert_allclose(both["weights"]["values"], expected, atol=2e-4)


def test_a_request_may_translate_whole_lines(client: Client) -> None:
    line = f"{FIRST} {SECOND}"
    [whole_line] = texts(client, [line], SearchOptions())
    [by_sentences] = texts(client, [line])
    for fields, expected in (
        ({}, by_sentences),
        ({"sentences": False}, whole_line),
        ({"sentences": True}, by_sentences),
    ):
        assert client.post("/v1/translate", q=line, **fields)[1]["translations"][0]["text"] == expected
        assert client.stream(q=line, **fields)[0][1]["text"] == expected
    begin = whole_line.split()[0]
    assert client.post("/v1/translate", q=line, prefix=begin)[1]["translations"][0]["text"].startswith(begin)


MARK = re.compile(r"\[X\d+X\]")


@pytest.mark.parametrize("sentences", [None, "en"])
def test_placeholders_of_weblate_come_back_in_order(sentences: str | None) -> None:
    """Weblate sends [X7X] in place of each placeholder, and puts it back afterwards."""
    texts = ["A small dog sees [X7X] red houses.", "[X0X][X11X] Two cats", "Blue [X3X]birds. Fly [X4X]!", "[X0X]"]
    options = SearchOptions(sentences=sentences)
    with serving(translators={"memory": tiny_translator("MemoryAttention")}, options=options) as client:
        answer = client.post("/translate", api_key="", q=texts, source="en", target="de")[1]["translatedText"]
    assert [MARK.findall(text) for text in answer] == [MARK.findall(text) for text in texts]


def test_lost_texts_are_named(client: Client) -> None:
    """A prefix turns the placing of placeholders off; the answer says what is missing."""
    [answer] = client.post("/v1/translate", q="Two {x} cats", prefix="Blue")[1]["translations"]
    assert answer["lost"] == ["{x}"]
    [answer] = client.post("/v1/translate", q="Two {x} cats")[1]["translations"]
    assert answer["lost"] == [] and "{x}" in answer["text"]
    answer = client.post("/translate", api_key="", q="Two {x} cats", source="en", target="de")[1]
    assert answer["warnings"] == [f"q[0]: {CUT}"]
