"""Files that were mixed up give a warning, and right ones do not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest
from sharded import SETTINGS

from nmt.data.filters import Filters
from nmt.data.pair import Pair
from nmt.text.prepare import prepare, reading_problems
from nmt.text.shards import Sharding

WORDS = (
    "dog man cat runs sees big small house a the".split(),
    "hund mann katze läuft sieht gross klein haus ein der".split(),
)


def pairs(count: int, seed: int = 1) -> tuple[list[str], list[str]]:
    """Return sentences of 6 to 30 words, and their translations word by word."""
    generator = random.Random(seed)
    rows = [[generator.randrange(10) for _ in range(generator.randint(6, 30))] for _ in range(count)]
    source, target = ([" ".join(words[i] for i in row) for row in rows] for words in WORDS)
    return source, target


def warnings(
    folder: Path, train: Sequence[list[str]], valid: Sequence[list[str]], *, shards: bool = False
) -> list[str]:
    parts = {name: [*map(Pair, *sides)] for name, sides in (("train", train), ("valid", valid))}
    sharding = Sharding(600 if shards else 10_000)
    return reading_problems(prepare(parts, Filters(), SETTINGS, folder, sharding=sharding))


TRAIN, VALID = pairs(2500), pairs(120, seed=2)
SHUFFLED = random.Random(3).sample(TRAIN[1], len(TRAIN[1]))
SORTED = [sorted(side, key=len) for side in TRAIN]
MANY = ["".join(letters) for letters in product("abdegiklmnor", repeat=3)]
GERMAN = [" ".join(random.Random(number).choices(MANY, k=6 + number % 20)) for number in range(800)]
REVERSED = [" ".join(reversed(line.split())) for line in GERMAN]


@pytest.mark.parametrize(
    ("train", "valid", "problem"),
    [
        (TRAIN, VALID, None),
        (SORTED, VALID, None),  # neighbours have one length
        (TRAIN, pairs(3, seed=4), None),
        (TRAIN, ([line[:-1] + "ß" for line in VALID[0]], VALID[1]), None),  # words that neither side has
        (
            TRAIN,
            ([line.title() for line in VALID[0]], VALID[1]),
            "valid source: 100 % of its lines have capital letters, 0 % ",
        ),
        (
            TRAIN,
            (VALID[0], [f"{line} ." for line in VALID[1]]),
            "valid target: 100 % of its lines have a space before a ",
        ),
        (TRAIN, VALID[::-1], "valid: its source and its target seem exchanged, compared with train; exchange them "),
        (
            TRAIN,
            (VALID[0], VALID[0]),
            "valid target: 100 % of its words are in the sources of train, 0 % in its targets; ",
        ),
        (
            TRAIN,
            (VALID[0], ["", " ", *VALID[1][2:]]),
            "valid: 2 of 120 pairs have an empty side; they lower its scores",
        ),
        (
            (TRAIN[0], TRAIN[1][1:] + ["ein hund"]),
            VALID,
            "train: near pair 1, sources fit the targets 1 line above better ",
        ),
        (
            (TRAIN[0], TRAIN[1][:1000] + ["ein", "hund", *TRAIN[1][1000:-2]]),
            VALID,
            "train: near pair 1,001, sources fit the targets 2 lines below better than their own (cor",
        ),
        (
            ([*map(str, range(2500))], TRAIN[1]),
            VALID,
            "train source: most lines have no letters; choose other files or co",
        ),
        ((GERMAN, REVERSED), (GERMAN[:50], REVERSED[:50]), "train: 100 % of the source words are in its targets, and "),
        ((GERMAN, [line.upper() for line in REVERSED]), (GERMAN[:50], [line.upper() for line in REVERSED[:50]]), None),
        ((TRAIN[0] * 2, TRAIN[1] * 2), VALID, "train: 2,500 of the first 5,000 pairs are copies of others; data.dup"),
        ((TRAIN[0] + TRAIN[0][:500], TRAIN[1] + TRAIN[1][:500]), VALID, None),
        ((TRAIN[0], SHUFFLED), VALID, "train: the lengths of its sources and targets are unrelated (correlation "),
        (
            (TRAIN[0], TRAIN[1][:200] + [line.replace("ä", "a\u0308") for line in TRAIN[1][200:]]),
            (VALID[0], [line.replace("ä", "a\u0308") for line in VALID[1]]),
            "train target: 74 % of its lines write 'la\u0308uft' and the like in another Unicode form ",
        ),
        (
            (TRAIN[0], [line.replace("ä", "a\u0308") for line in TRAIN[1]]),
            (VALID[0], [line.replace("ä", "a\u0308") for line in VALID[1]]),
            None,
        ),
        (
            (
                TRAIN[0],
                [line.replace("katze", "мачка") for line in TRAIN[1][:400]]
                + [line.replace("katze", "mačka") for line in TRAIN[1][400:]],
            ),
            (VALID[0], [line.replace("katze", "мачка") for line in VALID[1]]),
            "train target: 13 % of its lines write 'мачка' and the like in Cyrillic and others in Latin letters; ",
        ),
        (
            ([line.replace("big", "İyi").lower() for line in TRAIN[0]], TRAIN[1]),
            ([line.replace("big", "İyi").lower() for line in VALID[0]], VALID[1]),
            "train source: 79 % of its lines have 'i\u0307' with two dots, which lower-casing makes of 'İ'; for ",
        ),
        (
            (TRAIN[0], [line.replace(" ", "\t", 1) for line in TRAIN[1]]),
            VALID,
            "train target: 2,500 of 2,500 lines contain '\\t'; lines have columns",
        ),
    ],
)
def test_mixed_up_files_are_named(
    train: Sequence[list[str]], valid: Sequence[list[str]], problem: str | None, tmp_path: Path
) -> None:
    messages = [line for line in warnings(tmp_path / "a", train, valid) if "tokens" not in line]
    assert len(messages) == (problem is not None) and all(line.startswith(problem or "") for line in messages)
    of_first_shard = ("of 2,500", "1,001", "first 5,000", "another Unicode form", "two dots", "Cyrillic")
    if problem and not any(count in problem for count in of_first_shard):
        assert warnings(tmp_path / "b", train, valid, shards=True)[-1].split(" (")[0] == messages[0].split(" (")[0]


@pytest.mark.parametrize(("test", "named"), [(VALID, True), ((VALID[0], VALID[0]), True), (pairs(120, seed=3), False)])
def test_one_text_for_validation_and_test_is_named(test: Sequence[list[str]], named: bool, tmp_path: Path) -> None:
    parts = {name: [*map(Pair, *sides)] for name, sides in (("train", TRAIN), ("valid", VALID), ("test", test))}
    messages = reading_problems(prepare(parts, Filters(), SETTINGS, tmp_path / "data"))
    assert any(line.startswith("test: has the sources of valid, which chooses the model") for line in messages) is named
