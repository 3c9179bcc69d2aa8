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
from builders import call_before, expect_error, refusal, write_lines

from nmt.alignment.aer import alignment_error_rate
from nmt.attention import MemoryAttention
from nmt.commands.compare import compare
from nmt.comparison import speed
from nmt.comparison.models import FinishedRun, Model, choose_baseline, differing_settings, group_runs
from nmt.comparison.records import Column, Record, html_table, latex, markdown, pivot
from nmt.comparison.report import budget
from nmt.comparison.worker import measure
from nmt.data.links import parse_links
from nmt.errors import UserError
from nmt.inference.forced_decoding import force_decode
from nmt.inference.scores import corpus_scores
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.training.task import TranslationTask

pytestmark = pytest.mark.thorough

SMALL = [
    *("data.train_pairs=200", "data.valid_pairs=4", "data.test_pairs=3", "tokenizer.vocab_size=700"),
    *("embeddings.size=8", "encoder.hidden_size=8", "decoder.hidden_size=8", "training.max_epochs=1"),
    *("training.decode_sentences=2", "search.max_length=6", "device=cpu", "threads=1"),
]
TIMED = ["engines=[torch]", "beams=[1,2]"]
COMMAND = ["attention=luong,memory", "name=report", *SMALL, *TIMED, "baseline=memory"]
REPORT = Path("runs/report")
KINDS = ("luong", "memory")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which a comparison has finished. Only for reading, or for calls that train nothing."""
    with chdir(folder := tmp_path_factory.mktemp("compared")), pytest.MonkeyPatch.context() as patch:
        patch.setattr(speed, "ROUNDS", 1)
        compare(COMMAND)
    return folder


@pytest.fixture
def report(compared: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to that folder and return the folder of the report."""
    monkeypatch.chdir(compared)
    return compared / REPORT


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Measure no times: a worker repeats the sources, each group in 0.1 s. Return a list that gets the models."""
    calls: list[str] = []

    def run_tasks(_: Any, jobs: Any, **__: Any) -> Any:
        [job] = jobs
        calls.append(Path(job["load"]["folder"]).name.removeprefix("attention="))
        texts = [line for group in job["groups"] for line in group]
        tokens = [10 * len(group) for group in job["groups"]]
        beams = dict.fromkeys(job["beams"], ([0.1] * len(job["groups"]), tokens, texts))
        yield job, {"memory_mb": None, "beams": beams}

    monkeypatch.setattr(speed, "run_tasks", run_tasks)
    monkeypatch.setattr("nmt.comparison.report.save_figure", lambda _, file: file.touch())
    return calls


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


def test_records_are_the_scores_of_the_runs(report: Path, tmp_path: Path, timed: list[str]) -> None:
    first = report / "attention=luong"
    runs = [first, other_seed(first, tmp_path / "second")]
    words = [f"models=[runs/report,{runs[1]}]", f"runs={tmp_path}", "name=table", "baseline=memory"]
    compare([*words, "engines=[torch]"])
    assert timed == ["luong", "memory", "memory", "luong", "luong", "memory"]  # in turns
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
    assert values(folder, "luong", "timed_bleu", engine="torch", beam="5") == pytest.approx([untranslated] * 3)
    with (folder / "results.csv").open(newline="", encoding="utf-8") as file:
        times = [float(row["value"]) for row in csv.DictReader(file) if row["metric"] == "ms_per_token"]
    assert times and {100 / time for time in times} <= {10.0, 20.0, 30.0}  # tokens of a group of the fake worker
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


def run_of(folder: object, summary: Mapping[str, Any] | None = None, **config: Any) -> FinishedRun:
    """Return a run in a folder that does not exist, with this summary and configuration."""
    return FinishedRun(Path(str(folder)), config, dict(summary or {}))


@pytest.mark.parametrize(
    ("runs", "groups"),
    [
        (
            [run_of("a", seed=2, name="x", threads=2), run_of("b", seed=1, slots=3), run_of("a", seed=1, name="y")],
            {"a": [1, 2], "b": [1]},
        ),
        ([run_of("x/a", seed=1), run_of("y/a", seed=1, precision="bf16")], {"x/a": [1], "y/a": [1]}),
        (  # repeated, as on another machine
            [run_of("a", seed=1), run_of("b", seed=2), run_of("c", seed=1)],
            {"a": [1, 2], "c": [1]},
        ),
        *(  # a file of the text, or the module of an attention, changed between them
            ([run_of("a", {key: 1}, seed=1), run_of("b", {key: 2}, seed=2)], {"a": [1], "b": [2]})
            for key in ("text_checksum", "code")
        ),
        ([run_of("attention=b,attention.slots=8,seed=3", seed=3)], {"b, attention.slots=8": [3]}),
        ([run_of("a/seed=3", seed=3)], {"a/seed=3": [3]}),
    ],
)
def test_runs_that_differ_in_their_seed_are_one_model(runs: list[FinishedRun], groups: dict[str, list[int]]) -> None:
    assert {model.label: [run.seed for run in model.runs] for model in group_runs(runs)} == groups


def test_runs_that_start_from_different_weights_are_different_models(tmp_path: Path) -> None:
    runs = [run_of(tmp_path / start, seed=seed, init_from="base") for seed, start in enumerate("xyz")]
    for run, weights in zip(runs, "121", strict=True):
        run.folder.mkdir()
        (run.folder / "code.json").write_text(json.dumps({"nmt": run.folder.name, "init_from": weights}))
    assert [[run.seed for run in model.runs] for model in group_runs(runs)] == [[0, 2], [1]]


@pytest.mark.parametrize("baseline", ["a/x/../y", "a/y/", "b", "attention=b"])
def test_baseline_may_be_any_path_of_a_run(baseline: str) -> None:
    models = [Model("a", [run_of("a/x")]), Model("b", [run_of("a/z"), run_of("a/y")])]
    assert choose_baseline(models, baseline).label == "b"
    assert choose_baseline(models, None).label == "a"


NAMES = ["a_b", "50%", "x & y", "$5$", "#1", "{z}", "^~", "back\\slash", "<b>|", "日本語", "a*`c`", "[x]", "*"]


@pytest.mark.parametrize("name", NAMES)
def test_tables_escape_names(name: str) -> None:
    records = [Record(name, "", "bleu", 20.0), Record(name, "", "repetition", 0.1), Record("b", "", "bleu", 30.0)]
    columns = [Column("BLEU", ".2f", "bleu"), Column("repetition", ".2%", "repetition")]
    table = pivot("Quality", {name: 1, "b": 1}, records, columns)
    tex, md = latex([table], "report_1"), markdown([table], "<b>_1")
    row = next(line for line in tex if "10.00" in line)
    bare = re.sub(r"\\[&%$#_{}]|\\text\w+\{\}|\\\\$|\{[*\[]\}", "", row)
    assert not row.startswith(("[", "*"))  # arguments of the \\ before
    assert bare.count("&") == len(table.columns) - 1 and not re.search(r"[%$#_^~|<>{}\\]", bare)
    assert r"\caption{report\_1: Quality}" in tex
    cells = [line for line in md if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in cells} == {len(table.columns) + 1}
    assert "| 30.00 |" in cells[-1] and len(cells) == 4 and md[0] == r"# \<b\>\_1"
    assert "<b>|" not in html_table(table)


def test_table_has_a_row_per_model_and_a_column_per_test() -> None:
    records = [Record(model, "", "bleu", value) for model in ("base", "up") for value in (20.0, 22.0)]
    columns = [Column("BLEU", ".2f", "bleu"), Column("AER", ".2f", "aer")]
    table = pivot("", {"base": 2, "up": 2}, records, columns, {"up": {"bleu": "+1.00 (0.2)"}})
    assert table.columns == ["model", "n", "BLEU", "BLEU vs baseline (p)"]
    cells = ["2", "21.00 ± 1.41"]
    assert table.rows == [["base", *cells, "baseline"], ["up", *cells, "+1.00 (0.2)"]]


def test_page_needs_no_other_file(report: Path) -> None:
    text = (report / "report.html").read_text("utf-8")
    places = re.findall(r'\b(?:src|href|srcset|data|action)="([^"]*)"', text)
    assert places and all(place.startswith("data:image/png;base64,") for place in places)
    assert {"script", "link", "iframe", "object", "embed"}.isdisjoint(re.findall(r"<(\w+)", text))
    assert not re.search(r"url\(|@import|https?:", text)
    assert text.count("<b>luong</b>") == text.count("<b>memory</b>") > 0  # alignments of the same sentences
    for name in ("learning-curves", "pareto", "lengths"):
        assert all((report / "figures" / f"{name}.{form}").is_file() for form in ("png", "svg", "pdf"))


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["models=[runs/none]"], "models"),
        (["models=[runs/report]", "attention=luong"], "attention"),
        (["models=[runs/report]", "baseline=kernel"], "baseline"),
        (["models=[runs/report]", "beams=[0]"], "beams[0]"),
        (["models=[runs/report]", "name=a/b"], "name"),
        ([], "models"),
    ],
)
def test_bad_input_is_one_line_and_leaves_no_folder(report: Path, words: list[str], key: str) -> None:
    expect_error(key, compare, ["name=bad", *words])
    assert not Path("runs/bad/report.html").exists()


def set_text(text: str, *names: str) -> Callable[[Path], None]:
    return lambda folder: [(folder / f"test.{name}.txt").write_text(text) for name in names] and None


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "summary.json").unlink(),
        set_text("x\n" * 3, "references"),
        set_text("x\n", "translations"),
        set_text("0-0\n" * 3, "gold.links"),
        set_value("summary.json", "test", [1]),
    ],
    ids=["unfinished", "other references", "a translation is missing", "other links", "no test set"],
)
def test_runs_that_cannot_be_compared_are_named(report: Path, tmp_path: Path, change: Callable[[Path], None]) -> None:
    folder = shutil.copytree(report / "attention=luong", tmp_path / "run")
    change(folder)
    assert refusal(compare, [f"models=[runs/report,{folder}]", "name=bad"]).startswith(f"models={folder}: ")


def test_worker_translates_as_the_translator(report: Path) -> None:
    groups = [["a dog", "a small dog"], ["dog dog dog"]]
    load = {"folder": report / "attention=luong", "engine": "torch", "device": "cpu", "threads": 1, "trust": []}
    search = {"length_penalty": 1.0, "max_length": 5}
    job = {"load": load, "beams": [1, 3], "groups": groups, "search": {**search, "removed": None}}
    in_process, [(_, alone)] = measure(job), speed.run_tasks(measure, [job], workers=2)
    assert [*alone["beams"]] == [1, 3]
    for beam, (seconds, tokens, texts) in alone["beams"].items():
        options = SearchOptions(beam_size=beam, **search)
        translations = Translator.load(**load).translate(sum(groups, []), options)
        assert texts == in_process["beams"][beam][2] == [best.text for best in translations]
        assert tokens == [sum(len(best.tokens) for best in part) for part in (translations[:2], translations[2:])]
        assert len(seconds) == len(groups)


def test_failed_runs_are_left_out_and_named(report: Path, timed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def diverge(task: TranslationTask, *_: Any) -> None:
        if isinstance(task.model.attention, MemoryAttention):
            raise UserError("loss=nan: training cannot continue")

    call_before(monkeypatch, TranslationTask, "training_step", diverge)
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
    monkeypatch.setattr(speed, "run_tasks", Mock(side_effect=UserError("out of <memory>")))
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


def test_differing_settings_are_listed() -> None:
    shared = {"seed": 1, "precision": "bf16"}
    runs = {
        "a": run_of("a", **shared, attention={"slots": 4, "read": None}, name="a"),
        "b": run_of("b", **shared, attention={"read": True}, name="b"),
    }
    expected = {"a": ["attention.slots=4", "attention.read=null"], "b": ["attention.read=true"]}
    assert differing_settings(runs) == expected


def with_chinese_test_set(run: Path, folder: Path, lost: int) -> Path:
    """Copy a run as if it had been trained to translate into Chinese, without a character of each translation."""
    shutil.copytree(run, folder)
    references = ["我喜欢在公园里散步。", "今天天气很好，我们去看电影吧。", "他在学校里学习德语和英语。"]
    write_lines(folder / "test.references.txt", references)
    write_lines(folder / "test.translations.txt", [line[:lost] + line[lost + 1 :] for line in references])
    (folder / "test.gold.links.txt").unlink()
    return folder


@pytest.mark.filterwarnings("ignore:target text")  # the model has seen no Chinese
def test_all_scores_of_a_comparison_have_the_tokenizer_of_the_language(
    report: Path, tmp_path: Path, timed: list[str]
) -> None:
    runs = [with_chinese_test_set(report / f"attention={name}", tmp_path / name, len(name)) for name in KINDS]
    compare([f"models=[{runs[0]},{runs[1]}]", f"runs={tmp_path}", "name=zh", *TIMED])
    for run in runs:
        texts = lines(run, "test.translations.txt"), [lines(run, "test.references.txt")]
        score = sacrebleu.corpus_bleu(*texts, tokenize="zh")
        assert values(tmp_path / "zh", run.name, "bleu") == pytest.approx([score.score]) and score.score > 0
        assert values(tmp_path / "zh", run.name, "length_ratio") == pytest.approx([score.sys_len / score.ref_len])
