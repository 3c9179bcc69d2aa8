"""Measures of the report, against computations by hand and against sacrebleu's own calls."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from nmt.comparison.figures import Point, pareto_front, timed_points
from nmt.comparison.measures import (
    Bucket,
    Measurements,
    alignment_entropies,
    length_buckets,
    length_ratio,
    paired_bootstrap,
    repetition_rate,
    spread_rows,
)
from nmt.comparison.models import TestSet as Texts
from nmt.comparison.quality import Quality
from nmt.comparison.records import Record, save_csv, select

REFERENCES = ["the old man sees a small dog", "a cat sleeps in the garden", "we have read the long book", "who came ?"]
GOOD = ["the old man sees a small dog", "a cat sleeps in a garden", "we have read the book", "who came ?"]
BAD = ["the man sees dog dog", "cat sleeps the garden", "we read long book long book", "came ?"]
CHINESE = ["我喜欢在公园里散步。", "今天天气很好，我们去看电影吧。"] * 6
LOSSY = [line[: 3 + row % 5] + line[5 + row % 5 :] for row, line in enumerate(CHINESE)]


def test_entropy_is_that_of_the_normalised_sizes() -> None:
    weights = np.array([[0.0, 2.0, 0.0], [1.0, 1.0, 0.0], [-3.0, 3.0, 3.0], [0.0, 0.0, 0.0], [0.2, 0.3, 0.5]])
    by_hand = -sum(share * math.log(share) for share in (0.2, 0.3, 0.5))
    assert alignment_entropies(weights) == pytest.approx([0.0, math.log(2), math.log(3), by_hand])
    assert alignment_entropies(np.zeros((2, 3))).size == 0


@pytest.mark.parametrize(
    ("lines", "tokenizer", "rate"),
    [
        # a b a b a: ab ba ab ba, of which two repeat; c c c: cc cc, one repeats; x y: one bigram.
        (["a b a b a", "c c c", "x y", "word", ""], "13a", 3 / 7),
        (["a b", "a b"], "13a", 0),  # other lines do not count
        (["word", ""], "13a", 0),
        (["我们我们 走"], "13a", 0),
        (["我们我们 走"], "zh", 1 / 4),
    ],
)
def test_repetition_counts_bigrams_that_occurred_before_in_the_line(
    lines: list[str], tokenizer: str, rate: float
) -> None:
    assert repetition_rate(lines, tokenizer) == pytest.approx(rate)


def test_length_ratio_is_that_of_sacrebleu() -> None:
    assert length_ratio(["a b c", "d"], ["a b", "c d e"]) == pytest.approx(4 / 5)
    assert length_ratio(["", ""], ["a b", "c"]) == 0
    score = BLEU(tokenize="zh").corpus_score(LOSSY, [CHINESE])
    assert length_ratio(LOSSY, CHINESE, "zh") == score.sys_len / score.ref_len < 1


@pytest.mark.parametrize("lengths", [[3], [4, 4, 4], [1, 2, 2, 2, 9], [*range(40)], [7, 1, 30, 2, 2, 5, 11, 11, 11]])
@pytest.mark.parametrize("count", [1, 3, 4])
def test_buckets_hold_each_sentence_once_in_order(lengths: list[int], count: int) -> None:
    buckets = length_buckets(lengths, count)
    rows = [bucket.rows(lengths) for bucket in buckets]
    assert sorted(row for group in rows for row in group) == [*range(len(lengths))]
    assert all(rows) and len(buckets) <= count
    for bucket, following in zip(buckets, buckets[1:], strict=False):
        assert bucket.low <= bucket.high < following.low
    for bucket, group in zip(buckets, rows, strict=True):
        assert {bucket.low, bucket.high} <= {lengths[row] for row in group}


def test_buckets_of_different_lengths_are_equally_full() -> None:
    assert [len(bucket.rows(range(40))) for bucket in length_buckets(range(40), 4)] == [10, 10, 10, 10]
    assert (Bucket(3, 9).label, Bucket(4, 4).label) == ("3–9", "4")


def test_drawn_sentences_are_spread_from_short_to_long() -> None:
    assert spread_rows([5, 50, 2, 9, 7, 3], 3, longest=10) == [2, 0, 3]
    assert spread_rows([5, 50, 2, 9], 9, longest=10) == [2, 0, 3]
    assert spread_rows([5, 1, 9], 9, longest=10) == [0, 2]  # length 1 is an empty line
    assert spread_rows([50], 3, longest=10) == []
    assert spread_rows([11, 10, 2], 9, longest=10) == [2, 1]


def test_tables_keep_every_cell(tmp_path: Path) -> None:
    rows = [["model", "n"], ["a,b\u2028c", '"d"'], ["e\nf\x85", ""]]
    save_csv(tmp_path / "table.csv", rows)
    with open(tmp_path / "table.csv", encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == rows
    assert (tmp_path / "table.csv").read_bytes().count(b"\n") == 4


@pytest.mark.parametrize(
    ("first", "second", "references", "tokenizer"),
    [
        (GOOD, BAD, REFERENCES, "13a"),
        (GOOD, REFERENCES, REFERENCES, "13a"),
        (LOSSY, [line[:-2] + line[-1] for line in CHINESE], CHINESE, "zh"),
    ],
)
def test_significance_is_that_of_sacrebleu(
    first: list[str], second: list[str], references: list[str], tokenizer: str
) -> None:
    systems: list[Any] = [("Baseline: a", first), ("b", second)]
    metrics: Any = {"BLEU": BLEU(tokenize=tokenizer), "chrF": CHRF()}
    _, expected = PairedTest(systems, metrics, [references], test_type="bs", n_samples=200)()
    ours = paired_bootstrap(first, second, references, tokenizer=tokenizer, samples=200)
    for key, name in (("bleu", "BLEU"), ("chrf", "chrF2")):
        before, after = expected[name]
        assert ours[key].p == min(1, 2 * after.p_value)  # type: ignore[operator, union-attr]
        assert ours[key].delta == pytest.approx(after.score - before.score)  # type: ignore[union-attr]


def test_p_value_is_that_of_a_naive_two_sided_bootstrap() -> None:
    numbers = np.random.default_rng(4)
    references = [" ".join(numbers.choice(list("abcdefgh"), 12)) for _ in range(60)]
    first, second = (
        [" ".join(word for word in line.split() if numbers.random() > share) for line in references]
        for share in (0.2, 0.24)
    )

    def difference(rows: np.ndarray) -> float:
        texts = ([side[row] for row in rows] for side in (first, second, references))
        before, after, expected = texts
        return BLEU().corpus_score(after, [expected]).score - BLEU().corpus_score(before, [expected]).score

    measured = difference(np.arange(60))
    resampled = np.array([difference(numbers.integers(60, size=60)) for _ in range(400)])
    naive = np.mean(np.abs(resampled - resampled.mean()) >= abs(measured))
    assert 0.03 < naive < 0.6
    assert paired_bootstrap(first, second, references)["bleu"].p == pytest.approx(naive, abs=0.06)


def test_equal_translations_do_not_differ_significantly() -> None:
    assert {*paired_bootstrap(GOOD, [*GOOD], REFERENCES).values()} == {(0.0, 1.0)}


def test_scores_are_stored_for_their_texts_only(tmp_path: Path) -> None:
    store = Measurements(tmp_path)
    model: Any = SimpleNamespace(runs=[SimpleNamespace(seed=1, translations=GOOD)])
    for references, measured in ((REFERENCES, 1), (REFERENCES, 1), (GOOD, 2)):
        Quality(Texts(REFERENCES, references, None), [], store).differences(model, model)
        assert store.measured == measured


def test_values_of_a_range_of_lengths_are_their_own() -> None:
    records = [Record("a", "", "bleu", 1.0), Record("a", "", "bleu", 2.0, lengths="1–9")]
    assert [select(records, "a", "bleu", lengths=lengths) for lengths in ("", "1–9", "3")] == [[1.0], [2.0], []]


def test_pareto_front_has_the_points_that_no_other_beats() -> None:
    pairs = [(3.0, 20.0), (1.0, 10.0), (2.0, 10.0), (4.0, 19.0), (1.0, 8.0), (5.0, 21.0)]
    points = [Point(str(number), "torch", 1, time, bleu) for number, (time, bleu) in enumerate(pairs)]
    assert [point.label for point in pareto_front(points)] == ["1", "0", "5"]


def test_points_have_the_mean_time_of_the_rounds() -> None:
    search = {"engine": "torch", "beam": 2}
    records = [Record("a", "", "sentences_per_s", rate, **search) for rate in (10.0, 30.0)]  # type: ignore[arg-type]
    records += [Record("a", "", "timed_bleu", 7.0, **search) for _ in range(2)]  # type: ignore[arg-type]
    records += [Record("a", "", "bleu", 9.0), Record("b", "", "bleu", 9.0)]
    assert timed_points(records) == [Point(label="a", engine="torch", beam=2, milliseconds=50.0, bleu=7.0)]
