"""benchmarks/quality/marian.py gives Marian the pieces of our models."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest

from benchmarks.quality import marian, marian_peer
from nmt.files.atomic import write_lines
from nmt.text.tokenizer import Tokenizer

pytestmark = pytest.mark.thorough
LINES = ['Two men, in "hats".', "A \\ dog: it runs", "", "Ein Mädchen läuft"]


def test_pieces_spell_the_lower_cased_text_and_are_in_the_vocabulary(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train([line.lower() for line in LINES[:3]] * 9, vocab_size=300)
    model = tmp_path / "students" / "teacher" / "data" / "source.model"
    model.parent.mkdir(parents=True)
    model.write_bytes(tokenizer.to_bytes())
    for part in ("train", "valid"):
        for language in ("en", "de"):
            write_lines(tmp_path / f"{part}.{language}.gz", LINES)
    args = Namespace(runs=tmp_path / "runs", students=tmp_path / "students", data=tmp_path, corpus="captions")
    folder = marian.write_pieces("original", args)
    entries = (folder / "vocab.yml").read_text("utf-8").splitlines()
    names = [json.loads(entry.rpartition(":")[0]) for entry in entries]
    assert [entry.rpartition(": ")[2] for entry in entries] == [str(number) for number in range(len(names))]
    assert names[:2] == ["</s>", "<unk>"] and len(set(names)) == len(names) == len(tokenizer) - 2
    written = (folder / "train.src").read_text("utf-8").splitlines()
    assert {piece for line in written for piece in line.split()} <= {*names}
    _, decode = marian_peer.pieces(folder)
    assert [decode(line.split()) for line in written] == [line.lower() for line in LINES]
