"""Every YAML composes, validates and builds. Every wrong setting is reported in one line, all of them at once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from builders import expect_error, refusal

from nmt.config.advice import EXPERIMENTS as OWN_TEXT
from nmt.config.compose import compose_config, compose_train, to_yaml, train_config, train_problems
from nmt.config.overrides import config_dir, parse_value
from nmt.errors import UserError
from nmt.model.build import build_model
from nmt.settings.build import build, plain
from nmt.training.settings import PreparedTrain, Train

SIZES = {"source_vocabulary": 20, "target_vocabulary": 20, "longest_source": 9}
GROUPS = sorted(
    {path.name for path in config_dir().iterdir() if path.is_dir()} - {"experiment", "filters", "self_attention"}
)
CHOICES = [(group, path.stem) for group in GROUPS for path in sorted((config_dir() / group).glob("*.yaml"))]
NEED_MORE = ("text", "prepared", "multi30k", "table", "lora", "wandb")  # files, a model, or a package
EXPERIMENTS = [
    path.relative_to(config_dir() / "experiment").with_suffix("").as_posix()
    for path in sorted((config_dir() / "experiment").rglob("*.yaml"))
    if path.stem not in OWN_TEXT
]


def contains(larger: Any, smaller: Any) -> bool:
    """Return whether ``larger`` has all keys of ``smaller`` with their values; other keys may be defaults."""
    if isinstance(smaller, dict):
        return all(key in larger and contains(larger[key], item) for key, item in smaller.items())
    return bool(larger == smaller)


@pytest.mark.parametrize(("group", "choice"), CHOICES, ids="=".join)
def test_every_yaml_composes_comes_back_and_builds(group: str, choice: str) -> None:
    folder = ["data.folder=text"] if choice == "prepared" else []
    composed = compose_config("train", [f"{group}={choice}", *folder], lambda _: ())
    schema: Any = PreparedTrain if choice == "prepared" else Train
    settings = build(schema, composed)
    assert contains(plain(settings), composed)
    assert build(schema, plain(settings)) == settings
    if choice not in NEED_MORE:
        assert train_problems(composed) == []
        build_model(settings, **SIZES)
    if group == "attention" and choice not in ("none", "multi_head"):
        heads = {"_target_": "nmt.attention.MultiHeadAttention", "heads": 2, "inner": composed["attention"]}
        inner = build_model(build(Train, {**composed, "attention": heads}), **SIZES).attention.inner
        assert composed["attention"]["_target_"] == f"nmt.attention.{type(inner).__name__}"


@pytest.mark.thorough
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_composes_validates_and_builds(name: str, tmp_path: Path) -> None:
    words = [f"experiment={name}"]
    try:
        config = train_config([*words, f"data.folder={tmp_path}"])
    except UserError as error:  # it trains on real text: one line for each missing file, or no such key
        missing = [re.search(r"(\S+): no such file", line) for line in str(error).splitlines()]
        for file in filter(None, missing):
            Path(file[1].partition("=")[2]).write_text("a\n")
        config = train_config([*words, *([f"data.folder={tmp_path}"] if all(missing) else [])])
    assert config.name == name.replace("/", "_")
    build_model(config, **SIZES)


HERE = Path(__file__).parent
WRONG: list[tuple[str, list[str]]] = [
    ("attention.slot=3 lr=1 seed=x", ["attention.slot", "lr", "seed"]),
    ("attention.slots=0 optimizer.lr=abc +a=1", ["attention.slots", "optimizer.lr", "a"]),
    ("attention=loung encoder=rnn", ["attention", "encoder"]),
    ("beam --beam x", ["beam", "--beam", "x"]),
    ("optimizer.lr=inf", ["optimizer.lr"]),
    ("encoder.hidden_size=7", ["encoder.hidden_size"]),
    ("decoder.tied=true embeddings.size=8", ["decoder.tied"]),
    ("encoder=transformer encoder.heads=3", ["encoder.heads"]),
    ("decoder=transformer decoder.heads=3", ["decoder.heads"]),
    ("decoder=transformer decoder.tied=true embeddings.size=8", ["decoder.tied"]),
    ("tokenizer.vocab_size=[300,400]", ["embeddings.shared"]),
    ("attention=luong attention.score=dot encoder.hidden_size=8", ["attention.score"]),
    ("attention.split=1000", ["attention.split"]),
    ("attention=multi_head attention.heads=7", ["attention.heads"]),
    ("attention=multi_head attention.inner.scor=dot", ["attention.inner.scor"]),
    ("attention=bahdanau attention.slots=8", ["attention.slots"]),
    ("attention=null", ["attention"]),
    ("attention=luong,memory", ["attention"]),
    ("attention._target_=nmt.attention.Nothing", ["attention._target_"]),
    ("optimizer.betas=[0.9]", ["optimizer.betas"]),
    ("search=greedy search.coverage_penalty=0.2", ["search.coverage_penalty"]),
    ("search.n_best=2", ["search.n_best"]),
    ("search.max_length=" + "9" * 400, ["search.max_length"]),  # no float can hold it
    ("attention=none search.coverage_penalty=0.2", ["search.coverage_penalty"]),
    ("training.decode_sentences=0", ["training.decode_sentences"]),
    ("training.patience=none", ["training.patience"]),
    ("guide.weight=1", ["guide._target_"]),
    ("tokenizer.model=[a,b,c]", ["tokenizer.model"]),
    ("seed=5000000000", ["seed"]),
    ("trust=[nan] schedule=linear seed=x", ["seed"]),
    ("data=prepared data.folder=x tokenizer.vocab_size=999", ["tokenizer.vocab_size"]),
    ("data=prepared data.folder=x tokenizer=unigram", ["tokenizer"]),
    (f"data=text data.train.src={HERE} data.train.tgt={HERE} data.valid.src=no data.valid.tgt=no", ["data.train.src"]),
    ("data=[]", ["data"]),
    ("decoder=transformer attention=none", ["attention"]),
    ("encoder=transformer encoder.self_attention=linaer", ["encoder.self_attention"]),
    ("name=a/b", ["name"]),
    ("name=..", ["name"]),
    ("name=", ["name"]),
    ("name=null", ["name"]),
    ("hydra.run.dir=x", ["hydra.run.dir"]),
    ("hydra/launcher=joblib", ["hydra/launcher"]),
    ("name=${oc.env:HOME}", ["name"]),
    ("--config-dir nowhere", ["--config-dir nowhere"]),
    (f"init_from={__file__}", ["init_from"]),
    ("init_from=runs/nope", ["init_from"]),
]


@pytest.mark.parametrize(("words", "keys"), WRONG, ids=lambda value: value[:50] if isinstance(value, str) else "")
def test_wrong_settings_are_named_all_at_once(words: str, keys: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        train_config(words.split(" ") if words.startswith("--") else words.split())
    problems = caught.value.problems
    assert all("\n" not in problem for problem in problems)
    found = [re.split("[:=]", problem)[0] for problem in problems]
    assert found[: len(keys)] == sorted(keys, key=found.index) and set(found) >= {*keys}, problems


def test_similar_names_are_suggested_and_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "attention").mkdir()
    (tmp_path / "attention" / "scaled.yaml").write_text("defaults: [luong, _self_]\n", "utf-8")
    words = ["--config-dir", str(tmp_path)]
    assert "did you mean scaled?" in refusal(train_config, [*words, "attention=scalde"])
    text = refusal(train_config, [*words, "attention=scaled", "attention.score=dto"])
    assert "did you mean dot?" in text and text.endswith(f"({tmp_path}/attention/scaled.yaml)")


@pytest.mark.parametrize(
    ("text", "default", "value"),
    [
        *(("null", None, None), ("true", False, True), ("-3", 0, -3), ("1e-3", 0.1, 0.001), ("'7'", None, "7")),
        *(
            ("[]", [], []),
            ("[a, 1,null]", None, ["a", 1, None]),
            ("{a: 1}", {}, {"a": 1}),
            ("[no,en]", [], ["no", "en"]),
        ),
        *(
            (text, "demo", text)
            for text in ("1e5", "007", "1.10", "no", "true", "2024", "a: b", "a=b", "it's.en", "#1")
        ),
        *(
            (text, None, text)
            for text in ("jürgen/x", "日本.en", "a,b.en", "C:\\x", "", "007", "no", "[a", "{a}.en", "@x")
        ),
        *(("[a,b]", "demo", ["a", "b"]), ("'1'", "demo", "1"), ("null", "demo", None)),
    ],
)
def test_values_are_read_as_yaml_and_text_remains_text(text: str, default: Any, value: Any) -> None:
    parsed = parse_value(text, default)
    assert parsed == value and type(parsed) is type(value)


def test_config_dir_may_have_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "jürgen's, [own]"
    (folder / "search").mkdir(parents=True)
    (folder / "search" / "größer.yaml").write_text((config_dir() / "search" / "beam.yaml").read_text("utf-8"), "utf-8")
    words = ["--config-dir", str(folder), "search=größer"]
    assert train_config([*words, "search.beam_size=9"]).search.beam_size == 9
    (folder / "search" / "größer.yaml").write_text("beam_size: 7\n", "utf-8")
    assert train_config(words).search.beam_size == 7  # a file may change between two calls


def store(folder: Path, words: list[str]) -> None:
    """Write the configuration of a run with these settings."""
    (folder / "config.yaml").write_text(to_yaml(train_config(words)), "utf-8")


def test_resumed_run_inherits_everything_but_trust(tmp_path: Path) -> None:
    store(
        tmp_path,
        ["attention=bahdanau", "guide=links", "training.max_epochs=7", "threads=3", "trust=[os]", "runs=elsewhere"],
    )
    config = train_config(["threads=1", "name=x"], resumed=tmp_path)
    assert config.attention["_target_"] == "nmt.attention.BahdanauAttention"
    assert (config.training.max_epochs, config.threads, config.trust, config.name) == (7, 1, [], "x")
    assert config.runs == "runs" and config.guide is not None  # null by default, so not in a composed configuration


def test_faults_of_a_stored_run_name_its_file(tmp_path: Path) -> None:
    store(tmp_path, ["attention=memory"])
    stored = (tmp_path / "config.yaml").read_text("utf-8")
    (tmp_path / "config.yaml").write_text(stored.replace("  slots: 32", "  slots: 0\n  removed: null"), "utf-8")
    for words, resumed in (([], tmp_path), ([f"init_from={tmp_path}"], None)):
        with pytest.raises(UserError) as caught:
            train_config([*words, "encoder.layers=0"], resumed=resumed)
        places = [problem.rpartition(" (")[2] for problem in caught.value.problems]
        assert sorted(places) == sorted(["conf/encoder/bilstm.yaml)", *[f"{tmp_path}/config.yaml)"] * 2])


def test_removed_block_is_missing() -> None:
    config = compose_train([])
    config["data"].clear()  # which changes no other configuration
    composed = compose_train([f"seed={config['seed']}"])
    assert composed["data"] and {**composed, "data": {}} == config
    expect_error("training", train_config, ["training={}", "training=null"])
