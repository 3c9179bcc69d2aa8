"""A line of several sentences has one translation, through whatever entrance it comes, and stderr says so once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from builders import write_lines
from commands.texts import Call
from served import serving

from nmt.commands.evaluate import evaluate
from nmt.commands.translate import translate
from nmt.inference.model_folder import load_folder, save_folder
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions

LINES = ["the dog sees a cat. a red house? the cat sleeps!", "the cat sleeps .", "a red house. the dog."]


@pytest.mark.filterwarnings("ignore:source text")  # the tokenizer of this model knows no marks
def test_every_entrance_gives_one_result(model: Path, files: Path, call: Call) -> None:
    save_folder(files, replace(load_folder(model), single_sentences=True))
    write_lines("src", LINES)
    translator = Translator.load(files)
    whole_lines = translator.texts(LINES, SearchOptions(sentences=None))
    expected = [
        " ".join(translator.texts(line.replace("? ", "?\n").replace(". ", ".\n").split("\n"))) for line in LINES
    ]
    expected[1] = whole_lines[1]
    assert translator.texts(LINES) == expected != whole_lines

    text = "\n".join(LINES).encode()
    results = {
        "text": call(translate, f"model={files}", stdin=text),
        "html": call(translate, f"model={files}", "format=html", stdin=("<p>\n".join(LINES) + "\n").encode()),
        "workers": call(translate, f"model={files}", "input=src", "output=out", "workers=1"),
        "evaluate": call(evaluate, f"model={files}", "src=src", "tgt=out", "json=true"),
    }
    for printed in results.values():
        assert printed.error.count("sentences: 2 lines ") == 1
    assert results["text"].lines == Path("out").read_text("utf-8").split("\n")[:-1] == expected
    assert "\n".join(results["html"].lines) == "<p>\n".join(expected)
    assert json.loads("\n".join(results["evaluate"].lines))["ter"] == 0

    null = call(translate, f"model={files}", "search.sentences=null", stdin=text)
    assert null.lines == whole_lines and "sentences: " not in null.error
    with serving(translators={"model": translator}) as client:
        assert client.translate(LINES) == expected
        answer = client.post("/v1/translate", q=LINES)[1]["translations"]
        assert [best["text"] for best in answer] == expected
