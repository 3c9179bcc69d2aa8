"""Shards: results in the order of the input, and finished ones are kept and reused by the same call only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from builders import LUONG, call_before, expect_error, save_random, tiny_config
from inference.random_translators import TOKENIZER

from nmt.errors import UserError
from nmt.inference import shards
from nmt.inference.engines import LoadSettings
from nmt.inference.shards import TranslateShard, model_fingerprints, shard_results
from nmt.inference.translation import output_lines
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions

LINES = ["a small dog", "", "two cats sleep", "red houses", "a dog sees a dog", "cats"]
SETTINGS = LoadSettings(engine="torch", threads=1)
SEARCH = SearchOptions(beam_size=2, n_best=2, max_length=5)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards") / "run"
    save_random(folder, tiny_config(LUONG), TOKENIZER, scale=3.0)
    return folder


@pytest.fixture
def translated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of the shards that were translated and stored."""
    numbers: list[int] = []
    call_before(monkeypatch, shards, "save_record", lambda file, *_: numbers.append(int(file.stem)))
    return numbers


def output(run: Path, folder: Path, lines: list[str], *, stop: int = 99, search: SearchOptions = SEARCH) -> list[str]:
    """Return the output lines, translated in shards of one line. Reading fails at line ``stop``."""

    def groups() -> Iterator[list[str]]:
        for number, line in enumerate(lines):
            if number == stop:
                raise UserError("in.txt:3: invalid")
            yield [line]

    translator = Translator.load(run, engine="torch", threads=1)
    job = TranslateShard(
        model=run,
        fingerprints=model_fingerprints(translator, run),
        settings=SETTINGS,
        search=search,
        scores=False,
        alignments=False,
        folder=folder,
    )
    with shard_results(translator, job, groups(), 1) as results:
        return [line.rpartition(" ")[0] for done in results for line in done.output]  # without scores


def whole(run: Path, lines: list[str], search: SearchOptions = SEARCH) -> list[str]:
    """Return the output lines of one call; those of n-best lists begin with the number of the input line."""
    translations = Translator.load(run, engine="torch", threads=1).translate(lines, search, alignments=False)
    lines = output_lines(translations, n_best=search.n_best, scores=False)
    return [line.rpartition(" ")[0] for line in lines]  # without scores


def test_finished_shards_are_kept_until_the_same_call_is_complete(
    run: Path, tmp_path: Path, translated: list[int]
) -> None:
    folder = tmp_path / "out.shards"
    expected = whole(run, LINES)
    expect_error("in.txt", output, run, folder, LINES, stop=0)
    assert not folder.exists()
    expect_error("in.txt", output, run, folder, LINES, stop=3)
    damaged = folder / "00000001.shard"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert output(run, folder, LINES) == expected
    assert translated == [0, 1, 2, 1, 3, 4, 5] and os.listdir(tmp_path) == []


@pytest.mark.parametrize("change", ["line", "search", "model"])
def test_shards_of_another_call_are_translated_again(
    run: Path, tmp_path: Path, translated: list[int], change: str
) -> None:
    expect_error("in.txt", output, run, tmp_path / "out.shards", LINES, stop=3)
    translated.clear()
    if change == "model":
        save_random(tmp_path / "run", tiny_config(LUONG), TOKENIZER, scale=3.0, seed=2)
        run = tmp_path / "run"
    lines = [LINES[0], "dog", *LINES[2:]] if change == "line" else LINES
    search = replace(SEARCH, max_length=4) if change == "search" else SEARCH
    assert output(run, tmp_path / "out.shards", lines, search=search) == whole(run, lines, search)
    assert translated == ([1, 3, 4, 5] if change == "line" else [*range(6)])


def test_a_folder_of_the_user_is_refused(run: Path, tmp_path: Path, translated: list[int]) -> None:
    (tmp_path / "thesis").write_text("mine")
    expect_error(str(tmp_path), output, run, tmp_path, LINES)
    assert os.listdir(tmp_path) == ["thesis"] and translated == []
