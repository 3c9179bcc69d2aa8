"""benchmarks/quality/marian.py gives Marian the pieces of our models, and CTranslate2 what Marian computes."""

from __future__ import annotations

import json
import math
from argparse import Namespace
from pathlib import Path

import numpy as np
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
    args = Namespace(runs=tmp_path / "runs", students=tmp_path / "students", data=tmp_path)
    folder = marian.write_pieces("original", args)
    entries = (folder / "vocab.yml").read_text(encoding="utf-8").splitlines()
    names = [json.loads(entry.rpartition(":")[0]) for entry in entries]
    assert [entry.rpartition(": ")[2] for entry in entries] == [str(number) for number in range(len(names))]
    assert names[:2] == ["</s>", "<unk>"] and len(set(names)) == len(names) == len(tokenizer) - 2
    written = (folder / "train.src").read_text(encoding="utf-8").splitlines()
    assert {piece for line in written for piece in line.split()} <= {*names}
    _, decode = marian_peer.pieces(folder)
    assert [decode(line.split()) for line in written] == [line.lower() for line in LINES]


def test_positions_are_those_of_marian(tmp_path: Path) -> None:
    settings = np.frombuffer(b"type: transformer\n\0\0\0", dtype=np.int8)
    np.savez(tmp_path / "model.npz", Wemb=np.zeros((3, 6)), **{"special:model.yml": settings})
    model = marian.with_positions(tmp_path / "model.npz")
    assert model["special:model.yml"].tobytes() == b"type: transformer\n\0"
    for position in (0, 1, 7):
        angles = [position * math.exp(-i * math.log(10_000) / 2) for i in range(3)]
        expected = [*map(math.sin, angles), *map(math.cos, angles)]
        assert np.allclose(model["Wpos"][position], expected, atol=1e-6)
