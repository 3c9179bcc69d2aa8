"""``nmt-compare`` from training to the report, on two tiny models."""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import sacrebleu
from builders import call_before, write_lines

from nmt.alignment.aer import alignment_error_rate
from nmt.commands.compare import compare
from nmt.comparison import models, speed
from nmt.comparison.measures import Bucket, Difference, Measurements
from nmt.comparison.models import FinishedRun, Model, choose_baseline, differing_settings, group_runs, read_run
from nmt.comparison.quality import Quality
from nmt.comparison.records import Column, Record
from nmt.comparison.report import budget
from nmt.comparison.tables import html_table, latex, markdown, pivot
from nmt.comparison.worker import measure
from nmt.data.links import parse_links
from nmt.errors import UserError
from nmt.inference.forced_decoding import force_decode
from nmt.inference.scores import corpus_scores
from nmt.inference.translator import Translator
from nmt.training import run as training_run

pytestmark = pytest.mark.thorough

SMALL = [
    *("data.train_pairs=200", "data.valid_pairs=4", "data.test_pairs=3", "tokenizer.vocab_size=700"),
    *("embeddings.size=8", "encoder.hidden_size=8", "decoder.hidden_size=8", "training.max_epochs=1"),
    *("training.decode_sentences=2", "search.max_length=6", "device=cpu", "threads=1"),
]
TIMED = ["engines=[torch]", "beams=[1,2]", "rounds=1", "examples=1"]
COMMAND = ["attention=luong,memory", "name=report", *SMALL, *TIMED, "baseline=memory"]
REPORT = Path("runs/report")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which a comparison has finished. Only for reading, or for calls that train nothing."""
    with chdir(folder := tmp_path_factory.mktemp("compared")):
        compare(COMMAND)
    return folder


@pytest.fixture
def report(compared: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to that folder and return the folder of the report."""
    monkeypatch.chdir(compared)
    return compared / REPORT


def fake_worker(calls: list[str], *, stop_at: int = 99) -> Any:
    """Return a worker that repeats the sources, each group in 0.1 s, and is interrupted at a call."""

    def run_worker(job: Any) -> dict[str, Any]:
        if len(calls) == stop_at:
            calls.append("stop")
            raise KeyboardInterrupt
        calls.append(f"{Path(job['model']).name} {job['beams']}")
        timed = {"seconds": [0.1] * len(job["groups"]), "texts": job["groups"]}
        return {"memory_mb": None, "beams": {str(beam): dict(timed) for beam in job["beams"]}}

    return run_worker


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure no times."""
    monkeypatch.setattr(speed, "run_worker", fake_worker([]))


def values(folder: Path, model: str, metric: str, **key: str) -> list[float]:
    """Return the values of results.csv with this model, metric, engine, beam and lengths."""
    wanted = {"model": model, "metric": metric, "engine": "", "beam": "", "lengths": "", **key}
    with (folder / "results.csv").open(newline="", encoding="utf-8") as file:
        return [float(row["value"]) for row in csv.DictReader(file) if wanted.items() <= row.items()]


def lines(run: Path, name: str) -> list[str]:
    return (run / name).read_text("utf-8").splitlines()


def other_seed(run: Path, folder: Path) -> Path:
    """Copy a run as if another seed had given other translations and links."""
    shutil.copytree(run, folder)
    config = folder / "config.yaml"
    config.write_text(config.read_text("utf-8").replace("\nseed: 1\n", "\nseed: 2\n"), encoding="utf-8")
    shorter = (" ".join(line.split()[:4]) for line in lines(run, "test.references.txt"))
    write_lines(folder / "test.translations.txt", shorter)
    set_value("summary.json", "test.aer", 0.25)(folder)
    return folder


def set_value(file: str, key: str, value: Any) -> Callable[[Path], None]:
    """Return a function that sets a value of a JSON file in a folder, such as ``test.aer``."""

    def change(folder: Path) -> None:
        tree = part = json.loads((folder / file).read_text("utf-8"))
        *parents, last = key.split(".")
        for name in parents:
            part = part[name]
        part[last] = value
        (folder / file).write_text(json.dumps(tree), encoding="utf-8")

    return change


def test_records_are_the_scores_of_the_runs(report: Path, tmp_path: Path, timed: None) -> None:
    first = report / "attention=luong"
    runs = [first, other_seed(first, tmp_path / "second")]
    words = [f"models=[runs/report,{runs[1]}]", f"runs={tmp_path}", "name=table", "baseline=memory"]
    compare([*words, "engines=[torch]", "examples=0", "rounds=1"])
    folder = tmp_path / "table"
    texts = [(lines(run, "test.translations.txt"), lines(run, "test.references.txt")) for run in runs]
    scores = [corpus_scores(*pair).chrf for pair in texts]
    assert scores[0] != scores[1]
    assert values(folder, "luong", "chrf") == pytest.approx(scores)
    written, gold = (lines(first, f"test.{kind}.links.txt") for kind in ("references", "gold"))
    rate = alignment_error_rate([pair.possible for pair in parse_links(written, "")], parse_links(gold, ""))
    assert values(folder, "luong", "aer") == pytest.approx([rate, 0.25])
    assert values(folder, "luong", "updates") == [json.loads((first / "summary.json").read_text())["updates"]] * 2
    untranslated = corpus_scores(lines(first, "test.source.txt"), texts[0][1]).bleu  # what the fake worker returns
    assert values(folder, "luong", "timed_bleu", engine="torch", beam="5") == pytest.approx([untranslated])
    (memory,) = values(folder, "memory", "chrf")
    row = next(line for line in lines(folder, "report.md") if line.startswith("| luong | 2 |"))
    assert f"| {np.mean(scores):.2f} ± {np.std(scores, ddof=1):.2f} | {np.mean(scores) - memory:+.2f}" in row


def test_entropy_is_that_of_forced_decoding(report: Path) -> None:
    folder = report / "attention=memory"
    memory = Translator.load(folder, engine="torch")
    entropies = []
    for decoding in force_decode(memory, lines(folder, "test.source.txt"), lines(folder, "test.references.txt")):
        for weights in decoding.alignment:
            shares = [abs(float(weight)) / float(np.abs(weights).sum()) for weight in weights]
            entropies.append(-sum(share * math.log(share) for share in shares if share))
    assert values(report, "memory", "entropy") == pytest.approx([np.mean(entropies)], rel=1e-5)
    parameters = sum(weight.numel() for weight in memory.trained.model.parameters())
    assert values(report, "memory", "parameters") == [parameters]


def test_second_call_measures_and_trains_nothing(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (report / "report.html").read_text("utf-8")
    for name in ("training.run.fit", "comparison.speed.run_worker", "comparison.quality.force_decode"):
        monkeypatch.setattr(f"nmt.{name}", Mock(side_effect=AssertionError("measured or trained again")))
    compare(COMMAND)
    assert (report / "report.html").read_text("utf-8") == before


def test_interrupted_comparison_continues_in_turns(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["models=[runs/report]", "name=again", "rounds=2", "engines=[torch]", "examples=0"]
    words += ["device=cpu", "threads=1"]
    calls: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(speed, "run_worker", fake_worker(calls, stop_at=3))
        with pytest.raises(KeyboardInterrupt):
            compare([*words, "beams=[1]"])
    assert not Path("runs/again/report.html").exists()
    monkeypatch.setattr(speed, "run_worker", fake_worker(calls))
    compare([*words, "beams=[1]"])
    kinds = [call.partition("attention=")[2].partition(" ")[0] for call in calls]
    assert kinds == ["luong", "memory", "memory", "", "luong"]  # the second round in the opposite order
    compare([*words, "beams=[3]"])
    assert [call[-3:] for call in calls[5:]] == ["[3]"] * 4


def run_of(
    folder: object, summary: Mapping[str, Any] | None = None, *, weights: str = "", **config: Any
) -> FinishedRun:
    """Return a run in a folder that does not exist, with this summary, configuration and fingerprint."""
    run = FinishedRun(Path(str(folder)), config, dict(summary or {}))
    vars(run)["fingerprint"] = weights
    return run


def prepared_run(seed: int, checksum: int) -> FinishedRun:
    data = {"_target_": "nmt.data.sources.PreparedData"}
    return run_of(f"text{checksum}", {"text_checksum": checksum}, seed=seed, data=data)


@pytest.mark.parametrize(
    ("runs", "groups"),
    [
        (
            [run_of("a", seed=2, name="x", threads=2), run_of("b", seed=1, slots=3), run_of("a", seed=1, name="y")],
            {"a": [1, 2], "b": [1]},
        ),
        ([run_of("x/a", seed=1), run_of("y/a", seed=1, precision="bf16")], {"x/a": [1], "y/a": [1]}),
        (  # other code or another machine
            [run_of("a", seed=1, weights="1"), run_of("b", seed=2), run_of("c", seed=1, weights="2")],
            {"a": [1, 2], "c": [1]},
        ),
        ([prepared_run(1, 1), prepared_run(2, 2), prepared_run(3, 1)], {"text1": [1, 3], "text2": [2]}),
        ([run_of("attention=b,attention.slots=8,seed=3", seed=3)], {"b, attention.slots=8": [3]}),
        ([run_of(".", {"attention": "LuongAttention"}, seed=3)], {"Luong": [3]}),
    ],
)
def test_runs_that_differ_in_their_seed_are_one_model(runs: list[FinishedRun], groups: dict[str, list[int]]) -> None:
    assert {model.label: [run.seed for run in model.runs] for model in group_runs(runs)} == groups


def test_copy_of_a_run_is_refused() -> None:
    with pytest.raises(UserError) as caught:
        group_runs([run_of("a", seed=1), run_of("b", seed=1)])
    assert caught.value.key == "models"


@pytest.mark.parametrize(
    "baseline", ["runs/report/attention=memory", "runs/../runs/report/attention=memory/", "memory"]
)
def test_baseline_may_be_any_path_of_a_run(report: Path, baseline: str) -> None:
    found = group_runs([read_run(report / f"attention={kind}") for kind in ("luong", "memory")])
    assert choose_baseline(found, baseline).label == "memory"
    assert choose_baseline(found, None).label == "luong"


NAMES = ["a_b", "50%", "x & y", "$5$", "#1", "{z}", "^~", "back\\slash", "<b>|", "two\nlines", "日本語", "a*`c`", "[x]"]


@pytest.mark.parametrize("name", NAMES)
def test_tables_escape_names(name: str) -> None:
    found = [Model(name, [run_of("a")]), Model("b", [run_of("b")])]
    records = [Record(name, "", "bleu", 20.0), Record(name, "", "repetition", 0.1), Record("b", "", "bleu", 30.0)]
    columns = [Column("BLEU", ".2f", "bleu"), Column("repetition", ".2%", "repetition")]
    table = pivot("Quality", found, records, columns, best={"bleu": "b"})
    tex, md = latex([table], "report_1"), markdown([table], "<b>_1")
    row = next(line for line in tex if "10.00" in line)
    bare = re.sub(r"\\[&%$#_{}]|\\text\w+\{\}|\\\\$|\$[+-]?[\d.]+\$|\$\\pm\$", "", row)
    bare = re.sub(r"\{[*\[]\}", "", bare)
    assert not row.startswith(("[", "*"))  # arguments of the \\ before
    assert bare.count("&") == len(table.columns) - 1 and not re.search(r"[%$#_^~|<>{}\\]", bare)
    assert r"\textbf{30.00}" in "\n".join(tex) and r"\caption{report\_1: Quality}" in tex
    cells = [line for line in md if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in cells} == {len(table.columns) + 1}
    assert "| **30.00** |" in cells[-1] and len(cells) == 4 and md[0] == r"# \<b\>\_1"
    assert "<b>|" not in html_table(table)


def test_differences_have_a_star_if_all_runs_differ_in_one_direction() -> None:
    tests = {
        "up": [Difference(2.0, 0.01), Difference(4.0, 0.04)],
        "same": [Difference(0.0, 0.001)],
        "mixed": [Difference(4.0, 0.001), Difference(-2.0, 0.001)],
        "worse": [Difference(-4.0, 0.001), Difference(-2.0, 0.001)],
    }
    found = [Model(label, [run_of(label)]) for label in ("base", *tests)]
    records = [Record(model.label, "", "bleu", value) for model in found for value in (20.0, 22.0)]
    differences = {label: {"bleu": entries} for label, entries in tests.items()}
    table = pivot("", found, records, [Column("BLEU", ".2f", "bleu")], tests=differences)
    assert [(row[2].text, row[2].spread) for row in table.rows] == [("21.00", " ± 1.41")] * 5
    texts = ["baseline", "+3.00* (0.010, 0.040)", "+0.00 (0.001)", "+1.00 (0.001, 0.001)", "-3.00* (0.001, 0.001)"]
    assert [row[3].text for row in table.rows] == texts


@pytest.mark.parametrize(
    ("bleu", "p", "best"),
    [([20.0, 30.0, 25.0], 0.01, "m1"), ([20.0, 30.0, 29.9], 0.4, None), ([0.2, 0.9, 0.3], 0.001, None)],
)
def test_only_a_significantly_better_model_is_marked(
    bleu: list[float], p: float, best: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = [Model(f"m{number}", [run_of(f"m{number}", seed=1)]) for number in range(3)]
    records = [
        Record(model.label, "", metric, score)
        for model, score in zip(found, bleu, strict=True)
        for metric in ("bleu", "chrf")
    ]
    score_of = {model.label: score for model, score in zip(found, bleu, strict=True)}

    def differences(_: Any, model: Model, other: Model) -> Any:
        return dict.fromkeys(("bleu", "chrf"), [Difference(score_of[model.label] - score_of[other.label], p)])

    monkeypatch.setattr(Quality, "differences", differences)
    quality = Quality(models.TestSet([], [], None), [], Measurements(tmp_path))
    assert quality.best_models(found, records).get("bleu") == best


def test_runs_are_paired_by_their_seeds_or_else_by_their_places(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def texts(*numbers: int, seed: int | None = None) -> Model:
        runs = [run_of(number, seed=seed or number) for number in numbers]
        for run in runs:
            vars(run)["translations"] = [str(run.folder)]
        return Model("", runs)

    pairs: list[tuple[str, str]] = []

    def bootstrap(other: list[str], own: list[str], *_: Any, **__: Any) -> Any:
        pairs.append((own[0], other[0]))
        return {"bleu": (0, 1), "chrf": (0, 1)}

    monkeypatch.setattr("nmt.comparison.quality.paired_bootstrap", bootstrap)
    quality = Quality(models.TestSet([], [], None), [], Measurements(tmp_path))
    quality.differences(texts(3, 2, 9, 8), texts(1, 2, 3))
    assert pairs == [("3", "3"), ("2", "2"), ("9", "3"), ("8", "1")]


def test_page_needs_no_other_file(report: Path) -> None:
    text = (report / "report.html").read_text("utf-8")
    places = re.findall(r'\b(?:src|href|srcset|data|action)="([^"]*)"', text)
    assert places and all(place.startswith("data:image/png;base64,") for place in places)
    assert {"script", "link", "iframe", "object", "embed"}.isdisjoint(re.findall(r"<(\w+)", text))
    assert not re.search(r"url\(|@import|https?:", text)
    assert text.count("<b>luong</b>") == text.count("<b>memory</b>") == 1  # the alignments of the example
    for name in ("learning-curves", "pareto", "lengths"):
        assert all((report / "figures" / f"{name}.{form}").is_file() for form in ("png", "svg", "pdf"))


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["models=[runs/none]"], "models"),
        (["models=[runs/report]", "attention=luong"], "attention"),
        (["models=[runs/report]", "baseline=kernel"], "baseline"),
        (["models=[runs/report]", "beams=[1,1]"], "beams"),
        (["models=[runs/report]", "name=a/b"], "name"),
        ([], "models"),
    ],
)
def test_bad_input_is_one_line_and_leaves_no_folder(report: Path, words: list[str], key: str) -> None:
    with pytest.raises(UserError) as caught:
        compare(["name=bad", *words])
    assert caught.value.key == key and len(caught.value.problems) == 1
    assert not Path("runs/bad/report.html").exists() and not Path("runs/bad/measurements").exists()


def set_text(text: str, *names: str) -> Callable[[Path], None]:
    return lambda folder: [(folder / f"test.{name}.txt").write_text(text) for name in names] and None


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "summary.json").unlink(),
        lambda folder: (folder / "model.pt").unlink(),
        set_text("x\n" * 3, "references"),
        set_text("x\n", "translations"),
        set_text("0-0\n" * 3, "gold.links"),
        set_value("summary.json", "test", [1]),
    ],
    ids=["unfinished", "no weights", "other references", "a translation is missing", "other links", "no test set"],
)
def test_runs_that_cannot_be_compared_are_named(report: Path, tmp_path: Path, change: Callable[[Path], None]) -> None:
    folder = shutil.copytree(report / "attention=luong", tmp_path / "run")
    change(folder)
    with pytest.raises(UserError) as caught:
        compare([f"models=[runs/report,{folder}]", "name=bad"])
    assert str(caught.value).startswith(f"models={folder}: ")


def test_damaged_measurement_is_measured_again(tmp_path: Path) -> None:
    key, store = {"kind": "speed", "beams": (1, 2)}, Measurements(tmp_path)
    assert store.measure(key, lambda: {"a": [1]}) == {"a": [1]} == store.measure(key, lambda: 2)
    (file,) = (tmp_path / "measurements").iterdir()
    for text in ("", "[]", '{"key": {}, "result": 3}'):
        file.write_text(text)
        assert store.measure(key, lambda text=text: text) == text == store.measure(key, lambda: 2)
    assert store.measure({**key, "beams": [1]}, lambda: 3) == 3 and store.measured == 5


def test_worker_translates_as_the_translator(report: Path) -> None:
    groups = [["a dog", "a small dog"], ["dog dog dog"]]
    job = {"model": f"{report}/attention=luong", "engine": "torch", "device": "cpu", "threads": 1, "trust": []}
    job |= {"beams": [1, 3], "groups": groups, "search": {"length_penalty": 1.0, "max_length": 5}}
    in_process, alone = measure(job), speed.run_worker(job)
    assert [*alone["beams"]] == ["1", "3"]
    for beam, timed in alone["beams"].items():
        assert timed["texts"] == in_process["beams"][beam]["texts"]
        assert len(timed["seconds"]) == len(groups)
    with pytest.raises(UserError):
        speed.run_worker({**job, "model": f"{report}/missing"})


def test_failed_runs_are_left_out_and_named(report: Path, timed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def diverge(config: Any, *_: Any, **__: Any) -> None:
        if config.attention["_target_"].endswith("MemoryAttention"):
            raise UserError("loss=nan: training cannot continue")

    call_before(monkeypatch, training_run, "fit", diverge)
    words = ["attention=luong,memory", "name=partial", *SMALL, *TIMED]
    with pytest.raises(UserError):
        compare([*words, "baseline=memory"])
    assert not Path("runs/partial/report.html").exists()  # without the baseline
    with pytest.raises(UserError):
        compare(words)
    assert "runs/partial/attention=memory" in Path("runs/partial/report.html").read_text("utf-8")
    compare(["models=[runs/partial]", "name=given", *TIMED])
    assert values(Path("runs/given"), "luong", "bleu") and not values(Path("runs/given"), "memory", "bleu")


def test_a_run_that_is_named_twice_counts_once_and_times_may_be_missing(
    report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "run_worker", Mock(side_effect=UserError("out of <memory>")))
    places = [report / "attention=luong", (report / "attention=luong").resolve()]
    compare([f"models=[{places[0]},{places[1]}]", "name=twice", *TIMED])
    assert len(values(Path("runs/twice"), "luong", "bleu")) == 1
    text = Path("runs/twice/report.html").read_text("utf-8")
    assert "<dt>not timed: luong, torch</dt><dd>out of &lt;memory&gt;</dd>" in text


@pytest.mark.parametrize(
    ("updates", "comparable"),
    [
        ([{1: 8, 2: 8}, {1: 8}], True),
        ([{1: 8, 2: 9}, {1: 8, 2: 9}], True),
        ([{1: 8, 2: 9}, {1: 9, 2: 8}], False),
        ([{1: 8, 2: 9}, {1: 8}], False),
    ],
)
def test_budgets_are_equal_if_they_are_equal_for_each_seed(updates: list[dict[int, int]], comparable: bool) -> None:
    found = [
        Model(str(number), [run_of(seed, {"updates": count}, seed=seed) for seed, count in counts.items()])
        for number, counts in enumerate(updates)
    ]
    assert ("not comparable" in budget(found)) is not comparable
    assert "init_from" not in budget(found)
    found[1].runs[0].config["init_from"] = "runs/old"  # type: ignore[index]
    assert "init_from" in budget(found)


def test_differing_settings_are_listed() -> None:
    shared = {"seed": 1, "precision": "bf16"}
    runs = {
        "a": run_of("a", **shared, attention={"slots": 4, "read": None}, name="a"),
        "b": run_of("b", **shared, attention={"read": True}, name="b"),
    }
    expected = {"a": ["attention.slots=4", "attention.read=null"], "b": ["attention.read=true"]}
    assert differing_settings(runs) == expected


def with_chinese_test_set(run: Path, folder: Path, tokenizer: str = "null") -> Path:
    """Copy a run as if it had been trained to translate into Chinese, and scored with this tokenizer."""
    shutil.copytree(run, folder)
    references = ["我喜欢在公园里散步。", "今天天气很好，我们去看电影吧。", "他在学校里学习德语和英语。"]
    write_lines(folder / "test.references.txt", references)
    write_lines(folder / "test.translations.txt", [line[:4] + line[5:] for line in references])
    (folder / "test.gold.links.txt").unlink()
    config = folder / "config.yaml"
    text = config.read_text("utf-8").replace("  tokenizer: null\n", f"  tokenizer: {tokenizer}\n")
    config.write_text(text, encoding="utf-8")
    return folder


@pytest.mark.filterwarnings("ignore:target text")  # the model has seen no Chinese
def test_all_scores_of_a_comparison_have_the_tokenizer_of_the_language(
    report: Path, tmp_path: Path, timed: None
) -> None:
    runs = [with_chinese_test_set(report / f"attention={name}", tmp_path / name) for name in ("luong", "memory")]
    (runs[1] / "test.translations.txt").write_text("我喜欢散步。\n今天天气好。\n他学习。\n", encoding="utf-8")
    compare([f"models=[{runs[0]},{runs[1]}]", f"runs={tmp_path}", "name=zh", *TIMED, "examples=0"])
    for run in runs:
        texts = lines(run, "test.translations.txt"), [lines(run, "test.references.txt")]
        score = sacrebleu.corpus_bleu(*texts, tokenize="zh")
        assert values(tmp_path / "zh", run.name, "bleu") == pytest.approx([score.score]) and score.score > 0
        assert values(tmp_path / "zh", run.name, "length_ratio") == pytest.approx([score.sys_len / score.ref_len])
    other = with_chinese_test_set(report / "attention=memory", tmp_path / "b", "char")
    with pytest.raises(UserError) as caught:
        compare([f"models=[{runs[0]},{other}]", "name=bad"])
    assert str(caught.value).startswith(f"models={other}: ")


@pytest.mark.parametrize(("beams", "strength"), [([1, 3], 0.0), ([3], 0.2)])
def test_all_beam_sizes_have_the_same_coverage_penalty(
    beams: list[int], strength: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Greedy search has none."""
    worker = Mock(return_value={"beams": {}, "memory_mb": None})
    monkeypatch.setattr(speed, "run_worker", worker)
    options: Any = Mock(beams=beams, device="cpu", threads=1, trust=[], rounds=1, engines=["torch"])
    timing = speed.Timing(options, models.TestSet(["x"], ["y"], None), [(Bucket(1, 2), [0])], {})
    run = run_of("a", search={"coverage_penalty": 0.2})
    speed.measure_speed([Model("a", [run])], timing, Measurements(tmp_path))
    assert worker.call_args.args[0]["search"]["coverage_penalty"] == strength
