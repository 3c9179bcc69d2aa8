"""Measures of the report, against computations by hand and against sacrebleu's own calls."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from nmt.comparison.figures import draw_pareto, pareto_front, timed_points
from nmt.comparison.models import FinishedRun, Model
from nmt.comparison.models import TestSet as Texts
from nmt.comparison.quality import (
    GROUPS,
    Difference,
    alignment_entropies,
    differences,
    length_groups,
    paired_bootstrap,
    repetition_rate,
)
from nmt.comparison.records import Record, save_csv, select
from nmt.training.metrics import draw_curves

REFERENCES = ["the old man sees a small dog", "a cat sleeps in the garden", "we have read the long book", "who came ?"]
GOOD = ["the old man sees a small dog", "a cat sleeps in a garden", "we have read the book", "who came ?"]


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


@pytest.mark.parametrize("lengths", [[3], [4, 4, 4], [1, 2, 2, 2, 9], [*range(40)], [7, 1, 30, 2, 2, 5, 11, 11, 11]])
def test_groups_of_lengths_hold_each_sentence_once_in_order(lengths: list[int]) -> None:
    groups = length_groups(lengths)
    assert sorted(row for rows in groups.values() for row in rows) == [*range(len(lengths))]
    assert all(groups.values()) and len(groups) <= GROUPS
    ends = [end for rows in groups.values() for end in (min(lengths[r] for r in rows), max(lengths[r] for r in rows))]
    assert ends == sorted(ends) and all(high < low for high, low in zip(ends[1:-1:2], ends[2::2], strict=True))
    names = zip(ends[::2], ends[1::2], strict=True)
    assert [*groups] == [f"{low}–{high}" if low < high else f"{low}" for low, high in names]


def test_groups_of_different_lengths_are_equally_large() -> None:
    assert [*map(len, length_groups(range(40)).values())] == [10, 10, 10, 10]


def test_tables_keep_every_cell(tmp_path: Path) -> None:
    rows = [["model", "n"], ["a,b\u2028c", '"d"'], ["e\nf\x85", ""]]
    save_csv(tmp_path / "table.csv", rows)
    with open(tmp_path / "table.csv", encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == rows
    assert (tmp_path / "table.csv").read_bytes().count(b"\n") == 4


def test_p_value_is_that_of_a_naive_two_sided_bootstrap() -> None:
    numbers = np.random.default_rng(4)
    references = [" ".join(numbers.choice([*"abcdefg", "h.i"], 12)) for _ in range(30)]
    first, second = (
        [" ".join(word for word in line.split() if numbers.random() > share) for line in references]
        for share in (0.2, 0.24)
    )
    bleu: BLEU | CHRF = BLEU(tokenize="none")

    def difference(rows: np.ndarray, metric: BLEU | CHRF = bleu) -> float:
        before, after, expected = ([side[row] for row in rows] for side in (first, second, references))
        return metric.corpus_score(after, [expected]).score - metric.corpus_score(before, [expected]).score

    measured = difference(np.arange(30))
    resampled = np.array([difference(numbers.integers(30, size=30)) for _ in range(300)])
    naive = np.mean(np.abs(resampled - resampled.mean()) >= abs(measured))
    assert 0.03 < naive < 0.6
    ours = paired_bootstrap(first, second, references, tokenizer="none")
    assert ours["bleu"].p == pytest.approx(naive, abs=0.08) and ours["bleu"].delta == pytest.approx(measured)
    assert ours["chrf"].delta == pytest.approx(difference(np.arange(30), CHRF()))


def test_equal_translations_do_not_differ_significantly() -> None:
    tests = paired_bootstrap(GOOD, [*GOOD], REFERENCES).values()
    assert [(test.delta, test.p) for test in tests] == [(0.0, 1.0)] * 2


def model(*seeds: int) -> Model:
    """Return a model whose runs have these seeds, and their seed as their translation."""
    runs = [FinishedRun(Path(), {"seed": seed}, {}) for seed in seeds]
    for run in runs:
        vars(run)["translations"] = [str(run.seed)]
    return Model("", runs)


@pytest.mark.parametrize(
    ("text", "deltas", "ps", "best"),
    [
        ("+3.00* (0.010, 0.040)", (2.0, 4.0), (0.01, 0.04), (9.0, 9.0)),
        ("+2.00 (0.010, 0.050)", (2.0, 2.0), (0.01, 0.05), (9.0, 9.0)),
        ("+1.00 (0.001, 0.001)", (4.0, -2.0), (0.001, 0.001), (9.0, 9.0)),
        ("-3.00* (0.001, 0.001)", (-4.0, -2.0), (0.001, 0.001), (9.0, 1.0)),
        ("+0.09 (0.001, 0.001)", (0.09, 0.09), (0.001, 0.001), (9.0, 0.1)),  # at chance
        ("+2.00 (0.001)", (2.0,), (0.001,), (9.0,)),  # one run
    ],
)
def test_differences_have_a_star_if_several_runs_differ_in_one_direction(
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    deltas: tuple[float, ...],
    ps: tuple[float, ...],
    best: tuple[float, ...],
) -> None:
    tests = map(Difference, deltas, ps, best)
    monkeypatch.setattr(
        "nmt.comparison.quality.paired_bootstrap",
        lambda *_, **__: dict.fromkeys(("bleu", "chrf"), next(tests)),
    )
    models = (model(*range(len(deltas))) for _ in range(2))
    assert differences(*models, Texts([], [], None)) == {"bleu": text, "chrf": text}


def test_runs_are_paired_by_their_seeds_or_else_by_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs: list[tuple[str, str]] = []

    def bootstrap(other: list[str], own: list[str], *_: Any, **__: Any) -> Any:
        pairs.append((own[0], other[0]))
        return {"bleu": Difference(1.0, 0.2, 9.0)}

    monkeypatch.setattr("nmt.comparison.quality.paired_bootstrap", bootstrap)
    assert differences(model(3, 2, 9, 8), model(1, 2, 3), Texts([], [], None)).keys() == {"bleu"}
    assert pairs == [("3", "3"), ("2", "2"), ("9", "3"), ("8", "1")]


def test_values_of_a_range_of_lengths_are_their_own() -> None:
    records = [Record("a", "", "bleu", 1.0), Record("a", "", "bleu", 2.0, lengths="1–9")]
    assert [select(records, "a", "bleu", lengths=lengths) for lengths in ("", "1–9", "3")] == [[1.0], [2.0], []]


def test_pareto_front_has_the_points_that_no_other_beats() -> None:
    points = [(3.0, 20.0), (1.0, 10.0), (2.0, 10.0), (4.0, 19.0), (1.0, 8.0), (5.0, 21.0)]
    assert pareto_front(points) == [points[1], points[0], points[5]]


@pytest.mark.parametrize(
    ("scores", "has_line"), [((20.0, 30.0), True), ((20.0,), False), ((20.0, 20.0), False), ((0.0, 0.9), False)]
)
def test_pareto_line_joins_several_points_above_chance(scores: tuple[float, ...], has_line: bool) -> None:
    points = {("a", "torch"): {beam: (float(beam), score) for beam, score in enumerate(scores, 1)}}
    labels = [line.get_label() for line in draw_pareto(points).axes[0].lines]
    assert ("Pareto front" in labels) is has_line


def test_updates_are_whole_numbers_however_few_validations_there_are() -> None:
    for run in {"valid_loss": [(40, 3.0)]}, {"valid_bleu": [(4, 0.0), (6, 0.0)]}, {}:
        for axes in draw_curves({"a": [run]}).axes:
            assert all(tick == int(tick) for tick in axes.get_xticks())


def test_curves_have_no_empty_panel_for_bleu_that_no_run_measured() -> None:
    loss, both = {"valid_loss": [(40, 3.0)]}, {"valid_loss": [(40, 3.0)], "valid_bleu": [(40, 9.0)]}
    assert [len(draw_curves({"a": [loss], "b": [run]}).axes) for run in (loss, both)] == [1, 2]


def test_points_have_the_mean_time_of_the_rounds() -> None:
    search: dict[str, Any] = {"engine": "torch", "beam": 2}
    records = [Record("a", "", "sentences_per_s", rate, **search) for rate in (10.0, 30.0)]
    records += [Record("a", "", "timed_bleu", 7.0, **search) for _ in range(2)]
    records += [Record("a", "", "bleu", 9.0), Record("b", "", "bleu", 9.0)]
    assert timed_points(records) == {("a", "torch"): {2: (50.0, 7.0)}}
