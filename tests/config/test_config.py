"""Every YAML composes, validates and builds; everything that is wrong is named in one line with a remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from nmt.config import config_dir, train_config
from nmt.config.compose import train_problems
from nmt.errors import UserError
from nmt.model.build import build_model

GROUPS = ("data", "tokenizer", "embeddings", "encoder", "attention", "decoder", "batches", "training", "search")
CHOICES = [
    (group, path.stem)
    for group in GROUPS
    for path in sorted((config_dir() / group).glob("*.yaml"))
    if path.stem not in ("text", "prepared", "multi30k")  # these need files
]


@pytest.mark.parametrize(("group", "choice"), CHOICES, ids="=".join)
def test_every_yaml_composes_validates_and_builds(group: str, choice: str) -> None:
    config = train_config([f"{group}={choice}"])
    build_model(config, source_vocabulary=20, target_vocabulary=20, longest_source=9)


@pytest.mark.parametrize("inner", [stem for group, stem in CHOICES if group == "attention" and stem != "none"])
def test_every_attention_fits_into_heads(inner: str) -> None:
    if inner == "multi_head":
        return
    config = train_config(["attention=multi_head", f"attention@attention.inner={inner}"])
    assert config["attention"]["inner"] == train_config([f"attention={inner}"])["attention"]
    model = build_model(config, source_vocabulary=20, target_vocabulary=20, longest_source=9)
    assert f"nmt.attention.{type(model.attention.inner).__name__}" == config["attention"]["inner"]["_target_"]


@pytest.mark.parametrize("path", sorted((config_dir() / "experiment").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_experiment_composes(path: Path, shared_data: Path) -> None:
    config = train_config([f"+experiment={path.stem}", f"data.folder={shared_data / 'multi30k'}"])
    assert config["name"] == path.stem


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["attention.slot=3"], "attention.slot: no such key; did you mean attention.slots?"),
        (["attention=luong", "attention.scor=dot"], "attention.scor: no such key; did you mean attention.score?"),
        (["attention=memroy"], "did you mean memory?"),
        (["+attention.slot=3"], "attention.slot=3: no such key; did you mean slots?"),
        (["attention.slots=0"], "attention.slots=0: must be ≥ 1 (conf/attention/memory.yaml)"),
        (["attention.slots=2.5"], "attention.slots=2.5: must be a whole number"),
        (["attention.slots=true"], "attention.slots=true: must be a whole number"),
        (["attention.write_score=sigmoidal"], "softmax | sigmoid; did you mean sigmoid?"),
        (["search.beam_size=0"], "search.beam_size=0: must be ≥ 1 (conf/search/beam.yaml)"),
        (["training.lr=abc"], "training.lr=abc: must be a number"),
        (["training.lr=null"], "training.lr=null: must be a number"),
        (["training.lr=nan"], "training.lr=nan: must be > 0"),
        (["encoder.dropout=1.0"], "encoder.dropout=1.0: must be ≥ 0 and < 1"),
        (["encoder.hidden_size=7"], "must be even"),
        (["tokenizer.joint=false"], "embeddings.shared=true: needs one vocabulary"),
        (["attention=luong", "attention.score=dot", "encoder.hidden_size=8"], "attention.score=dot"),
        (["attention=multi_head", "attention.heads=7"], "attention.heads=7: must divide encoder.hidden_size="),
        (["attention=multi_head", "attention.inner.scor=dot"], "did you mean attention.inner.score?"),
        (["attention=multi_head", "attention.inner.score=dto"], "attention.inner.score=dto: must be"),
        (["attention=multi_head", "attention.inner=3"], "attention.inner=3"),
        (["attention._target_=os.system"], "package 'os' is not trusted"),
        (["attention._target_=nmt.attention.Nothing"], "no such class"),
        (["training.betas=[0.9]"], "must be two numbers"),
        (["search.n_best=9"], "search.n_best=9: must be ≤ search.beam_size=5 (conf/search/beam.yaml)"),
        (
            ["search=greedy", "search.coverage_penalty=0.2"],
            "search.coverage_penalty=0.2: ranks the hypotheses of a beam",
        ),
        (["attention=none", "search.coverage_penalty=0.2"], "search.coverage_penalty=0.2: a model without attention"),
        (
            ["training.decode_sentences=0"],
            "training.decode_sentences=0: training.monitor=valid_bleu needs translations",
        ),
        (
            ["tokenizer.target_model=/no"],
            "tokenizer.target_model=/no: one vocabulary for both sides is tokenizer.source",
        ),
        (["data=text", "data.test.links=/no"], "data.test.src=null: must be given"),
        (["data=text"], "data.train.src=null: must be given"),
        (["data=text", "data.train.src=/nowhere/a"], "data.train.src=/nowhere/a: no such file"),
        (["data=prepared"], "data.folder"),
        (["beam"], "beam: settings are written key=value"),
        (["--beam"], "--beam: no such option"),
        (["name=[a"], ""),
    ],
    ids=str,
)
def test_a_bad_setting_is_named(words: list[str], message: str) -> None:
    with pytest.raises(UserError) as caught:
        train_config(words)
    assert message in str(caught.value)


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(UserError) as caught:
        train_config(["attention.slots=0", "training.lr=abc", "+nonsense=1"])
    assert all(word in str(caught.value) for word in ("attention.slots=0", "training.lr=abc", "nonsense=1"))


def test_a_missing_key_is_named() -> None:
    config = train_config([])
    del config["training"]["lr"]
    (problem,) = train_problems(config)
    assert problem.startswith("training.lr: missing")
