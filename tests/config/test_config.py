"""Every YAML composes, validates and builds. Every wrong setting is reported in one line, with a fix."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nmt.config.compose import compose_config, compose_train, to_yaml, train_config, train_problems
from nmt.config.overrides import config_dir
from nmt.errors import UserError
from nmt.model.build import build_model

SIZES = {"source_vocabulary": 20, "target_vocabulary": 20, "longest_source": 9}
GROUPS = ("data", "tokenizer", "embeddings", "encoder", "attention", "decoder", "batches", "optimizer", "schedule")
GROUPS += ("training", "search")
CHOICES = [
    (group, path.stem)
    for group in GROUPS
    for path in sorted((config_dir() / group).glob("*.yaml"))
    if path.stem not in ("text", "prepared", "multi30k", "table", "hub")  # they need files
]


def refuse(words: list[str], message: str) -> None:
    """Assert that these arguments are an error, whose text contains the message."""
    with pytest.raises(UserError) as caught:
        train_config(words)
    assert message in str(caught.value)


@pytest.mark.thorough
@pytest.mark.parametrize(("group", "choice"), CHOICES, ids="=".join)
def test_every_yaml_composes_validates_and_builds(group: str, choice: str) -> None:
    build_model(train_config([f"{group}={choice}"]), **SIZES)


@pytest.mark.thorough
@pytest.mark.parametrize("inner", [stem for group, stem in CHOICES if group == "attention" and stem != "none"])
def test_every_attention_works_inside_multi_head(inner: str) -> None:
    if inner == "multi_head":
        return
    config = train_config(["attention=multi_head", f"attention@attention.inner={inner}"])
    assert config.attention["inner"] == train_config([f"attention={inner}"]).attention
    model = build_model(config, **SIZES)
    assert f"nmt.attention.{type(model.attention.inner).__name__}" == config.attention["inner"]["_target_"]


EXPERIMENTS = sorted(
    path.relative_to(config_dir() / "experiment").with_suffix("").as_posix()
    for path in (config_dir() / "experiment").rglob("*.yaml")
)


@pytest.mark.thorough
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_composes_validates_and_builds(name: str, tmp_path: Path) -> None:
    words = [f"+experiment={name}"]
    try:
        config = train_config([*words, f"data.folder={tmp_path}"])
    except UserError as error:  # it trains on real text: one line for each missing file, or no such key
        missing = [re.search(r"(\S+): no such file", line) for line in str(error).splitlines()]
        for file in filter(None, missing):
            Path(file[1].partition("=")[2]).write_text("a\n")
        folder = [f"data.folder={tmp_path}"] if all(missing) else []
        config = train_config([*words, *folder])
    assert config.name == name.replace("/", "_")
    build_model(config, **SIZES)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["attention.slot=3"], "attention.slot: no such key; did you mean attention.slots?"),
        (["search.top_k=3"], "search.top_k: no such key; --help lists the settings"),  # nmt-train draws no samples
        (["training.learning_rate=1"], "training.learning_rate: no such key; use optimizer.lr"),
        (["search.max_len=9"], "search.max_len: no such key; did you mean search.max_length?"),
        (["attention.slots=0"], "attention.slots=0: must be at least 1 (conf/attention/located_memory.yaml)"),
        (["optimizer.lr=inf"], "optimizer.lr=inf: must be finite (conf/optimizer/adam.yaml)"),
        (["encoder.hidden_size=7"], "must be even"),
        (["tokenizer.joint=false"], "embeddings.shared=true: needs one vocabulary"),
        (["attention=luong", "attention.score=dot", "encoder.hidden_size=8"], "attention.score=dot"),
        (["attention=multi_head", "attention.heads=7"], "attention.heads=7: must divide encoder.hidden_size="),
        (["attention=multi_head", "attention.inner.scor=dot"], "did you mean attention.inner.score?"),
        (["attention._target_=os.system"], "package 'os' is not trusted"),
        (["attention._target_=nmt.attention.Nothing"], "not found"),
        (["optimizer.betas=[0.9]"], "optimizer.betas=[0.9]: must be a list of 2 (conf/optimizer/adam.yaml)"),
        (["search=greedy", "search.coverage_penalty=0.2"], "search.coverage_penalty=0.2: needs beam search"),
        (["search.n_best=2"], "search.n_best=2: only the best translation of the test set is written"),
        (["attention=none", "search.coverage_penalty=0.2"], "search.coverage_penalty=0.2: a model without attention"),
        (
            ["search.sentences=german"],
            "search.sentences=german: not the code of a language; write one such as en or de",
        ),
        (
            ["training.decode_sentences=0"],
            "training.decode_sentences=0: training.monitor=valid_bleu needs translations",
        ),
        (["schedule=plateau", "schedule.patience=4"], "schedule.patience=4: training.patience=5 ends training before"),
        (
            ["tokenizer.target_model=/no"],
            "tokenizer.target_model=/no: a joint vocabulary reads tokenizer.source_model only",
        ),
        (["seed=5000000000"], "seed=5000000000: must be at most 4294967295 (conf/train.yaml)"),
        (["data=text"], "data.train.src=null: must be given"),
        (["data=text", "data.train.src=/nowhere/a"], "data.train.src=/nowhere/a: no such file"),
        *(
            (["data=prepared", "data.folder=x", word], f"{word}: prepared text has its own tokenizers; remove it")
            for word in ("tokenizer=unigram", "tokenizer.vocab_size=999", "++tokenizer.joint=true")
        ),
        (["lr=1"], "lr: no such key; use optimizer.lr"),
        (["foo=1"], "foo: no such key; --help lists the settings"),
        (["batch_size=3"], "batch_size: no such key; use batches.max_tokens (pieces) or batches.max_sentences"),
        (
            ["attention=bahdanau", "attention.slots=8"],
            "attention.slots: no such key; attention=abc, attention=located_memory, attention=low_rank, "
            "attention=memory and attention=nested_memory have it",
        ),
        (
            ["attention._target_=nmt.attention.BahdanauAttention"],
            "attention.slots=32: no such key (conf/attention/located_memory.yaml); attention._target_= keeps all other "
            "keys of this file: write another YAML for your class",
        ),
        (
            ["optimizer._target_=torch.optim.SGD"],
            "optimizer.betas=[0.9, 0.98]: no such key (conf/optimizer/adam.yaml); ",
        ),
        (["optimizer.lr = 0.1"], "optimizer.lr = 0.1: not a setting; write key=value without spaces"),
        (["x" * 300 + "=1"], "x" * 80 + "…: no such key; --help lists the settings"),
        (["training.patience=none"], "training.patience=none: must be a whole number; write null for off"),
        (["hydra.run.dir=x"], "hydra.run.dir=x: Hydra's own settings have no effect here; remove it"),
        (["beam"], "beam: not a setting; write search=beam"),
        (["multi30k_transformer"], "multi30k_transformer: not a setting; write +experiment=multi30k_transformer"),
        (["--beam"], "--beam: no such option"),
        *(
            ([f"name={name}"], f"name={name}: must be the name of a folder")
            for name in ("", " ", "..", "a/b", "a/", "/a")
        ),
        (["name=null"], "name=null: must be text (conf/train.yaml)"),
        (
            ["+search.temperature=1", "search.coverage_penalty=0.2"],
            "search.coverage_penalty=0.2: needs beam search; remove it, or remove search.temperature",
        ),
        (["data=text", f"data.train.src={Path(__file__).parent}"], "config: a folder, not a file"),
        (["data=text", "data.train.src=/dev/null"], "data.train.src=/dev/null: a pipe or a device"),
        (
            ["encoder=rnn"],
            "encoder=rnn: no such choice; choose from bigru, bilstm, covariance_gru, gru, lstm, transformer",
        ),
        (["decoder=transformer", "attention=none"], "attention=NoAttention: has no contexts"),
        (["encoder=transformer", "encoder.self_attention=linaer"], "did you mean linear?"),
        (["decoder=transformer", "decoder.self_attention.feature_map=elo"], "decoder.self_attention=linear has it"),
        (
            ["encoder=it's/b"],
            "encoder=it's/b: no such choice; choose from bigru, bilstm, covariance_gru, gru, lstm, transformer",
        ),
        (["attention=null"], "attention=null: must be the name of a choice"),
        ([f"init_from={__file__}"], f"init_from={__file__}: no such folder; name a folder that nmt-train has finished"),
        (["init_from=runs/nope"], "init_from=runs/nope: no such folder; name a folder that nmt-train has finished"),
        (["data=text", f"data.train.src={'x' * 2000}"], "x: no such file"),
        (["search.max_length=" + "9" * 400], "9: must be at most 1000 ("),  # no float can hold it
        (["trust=[nan]", "schedule=linear", "seed=x"], "seed=x: must be a whole number"),
        (["data=[]"], "data: missing"),
        (["experiment=multi30k"], "experiment: no such key; did you mean +experiment=multi30k?"),
    ],
    ids=str,
)
def test_wrong_setting_is_reported(words: list[str], message: str) -> None:
    refuse(words, message)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "text",
    [
        *("jürgen/runs/x", "日本.en", "🙂", "it's.en", "'tis.en", 'say "so".en', "a=b.en", "a,b.en", "a(1).en", "#1"),
        *("a~b&c;d!e<f>.en", "{a,b}.en", "[1].en", "[a", "two words", " led", "trailed ", "tab\t.en", "two\nlines"),
        *("C:\\text\\a.en", "a\\", "a\\\\", "\\\\host\\a", "a\\'b\\\\'", "a\\,b", "'", "''a", "choice(a,b)", "$HOME/x"),
        *("a: b", "a-b_c.1"),
    ],
)  # fmt: skip
def test_special_characters_in_text_are_kept(text: str) -> None:
    train = compose_config("train", [f"runs={text}", f"+data.train={text}", f"++init_from={text}"], lambda _: ())
    assert (train["runs"], train["data"]["train"], train["init_from"]) == (text, text, text)
    assert compose_config("translate", [f"model={text}"], lambda _: ())["model"] == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("", ""), ("null", None), ("true", True), ("False", False), ("-3", -3), ("1e-3", 0.001), ("'7'", "7")),
        *(("[]", []), ("[a, 1,null]", ["a", 1, None]), ("{a: 1}", {"a": 1}), ("'é'", "é"), ('"a,b"', "a,b")),
        *(("'it\\'s'", "it's"), ("${seed}", 1), ("x${seed}", "x1")),
    ],
)
def test_hydra_syntax_is_parsed(text: str, value: Any) -> None:
    parsed = compose_config("train", [f"init_from={text}"], lambda _: ())["init_from"]
    assert parsed == value and type(parsed) is type(value)


def test_config_dir_may_have_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "jürgen's, [own]"
    (folder / "search").mkdir(parents=True)
    (folder / "search" / "größer.yaml").write_text((config_dir() / "search" / "beam.yaml").read_text("utf-8"), "utf-8")
    words = ["--config-dir", str(folder), "search=größer", "search.beam_size=9"]
    assert train_config(words).search.beam_size == 9


def test_choices_of_config_dir_are_suggested_and_located(tmp_path: Path) -> None:
    (tmp_path / "attention").mkdir()
    (tmp_path / "attention" / "scaled.yaml").write_text("defaults: [luong, _self_]\n", "utf-8")
    words = ["--config-dir", str(tmp_path)]
    choices = "attention=scalde: no such choice; did you mean scaled?; choose from abc, bahdanau"
    refuse([*words, "attention=scalde"], choices)
    refuse([*words, "attention=scaled", "attention.score=dto"], f"({tmp_path}/attention/scaled.yaml)")


def store(folder: Path, words: list[str]) -> None:
    """Write the configuration of a run with these settings."""
    (folder / "config.yaml").write_text(to_yaml(train_config(words)), "utf-8")


def test_null_overrides_a_setting_inherited_from_init_from(tmp_path: Path) -> None:
    store(tmp_path, ["attention.slots=5", "tokenizer.normalisation=nfkc"])
    words = [f"init_from={tmp_path}", "tokenizer.normalisation=null"]
    config = train_config(words)
    assert (config.attention["slots"], config.tokenizer.normalisation) == (5, None)


def test_runs_of_earlier_versions_may_name_the_direction_that_is_left(tmp_path: Path) -> None:
    store(tmp_path, ["attention=delta", "attention.key_size=4"])
    config = tmp_path / "config.yaml"
    config.write_text(re.sub("(key_size: 4)", r"\1\n  directions: forward", config.read_text("utf-8")), "utf-8")
    for stored in (compose_train([f"init_from={tmp_path}"]), compose_train([], resumed=tmp_path)):
        assert stored["attention"] == {"_target_": "nmt.attention.DeltaAttention", "key_size": 4}


def test_unknown_key_beside_init_from_is_reported_once(tmp_path: Path) -> None:
    store(tmp_path, ["attention=luong"])
    with pytest.raises(UserError) as failure:
        compose_train([f"init_from={tmp_path}", "data.train.src=a"])
    assert [*failure.value.problems] == ["data.train.src: no such key; data=multi30k and data=text have it"]


def test_resumed_run_keeps_its_attention_if_the_default_changes(tmp_path: Path) -> None:
    store(tmp_path, ["attention=bahdanau"])
    classes = [
        train_config(words, resumed=tmp_path).attention["_target_"].rpartition(".")[2]
        for words in ([], ["attention=luong"])
    ]
    assert classes == ["BahdanauAttention", "LuongAttention"]


@pytest.mark.parametrize(("stored", "expected"), [("bom", "bom"), ("all", "all"), ("null", None), (None, None)])
def test_model_keeps_its_change_of_the_text(stored: str | None, expected: str | None, tmp_path: Path) -> None:
    """A model of a version without ``data.remove_invisible`` has removed nothing, although the default is ``bom``."""
    store(tmp_path, [] if stored is None else [f"data.remove_invisible={stored}"])
    if stored is None:
        config = tmp_path / "config.yaml"
        config.write_text(re.sub(r"\n  remove_invisible: .*", "", config.read_text("utf-8")), "utf-8")
    assert compose_train([f"init_from={tmp_path}"])["data"]["remove_invisible"] == expected


def test_removed_size_takes_the_default_of_its_class() -> None:
    words = ["attention=multi_head", "~encoder.hidden_size=256", "~decoder.hidden_size=256"]
    model = build_model(train_config(words), **SIZES)
    assert model.encoder.state_size == 512
    words += ["attention.heads=7", "+encoder.hidden_size=14"]
    refuse(words, "attention.heads=7: must divide decoder.hidden_size=512")


def test_decoder_without_hidden_size_is_rejected() -> None:
    config = compose_train([])
    sizes = dict.fromkeys(("encoder_size", "decoder_size", "decoder_layers"), 8)
    config["decoder"] = {"_target_": "nmt.model.Bridge", **sizes}
    (problem,) = train_problems(config)
    assert problem.startswith("decoder._target_=nmt.model.Bridge: must have a hidden_size")


def test_missing_key_is_reported() -> None:
    config = compose_train([])
    del config["training"]["patience"]
    (problem,) = train_problems(config)
    assert problem.startswith("training.patience: missing")


OWN = """
from __future__ import annotations
from typing import TYPE_CHECKING, Annotated, Literal
from nmt.attention import LuongAttention, MemoryAttention, NoAttention
from nmt.settings.arguments import AtLeast

if TYPE_CHECKING:
    from nowhere import Shape

class Mine(NoAttention):
    def __init__(
        self, *, state_size: int, query_size: int, rate: int | float = 1, keep: Annotated[int, AtLeast(1)] | bool = 1,
        pair: tuple[int, int] = (1, 2), shapes: dict = {}, shape: Shape | None = None, size: int = 3,
        noted: Annotated[str, "a note"] = "", bounded: Annotated[int | str | None, AtLeast(1)] = None,
    ) -> None:
        super().__init__(state_size=state_size, query_size=query_size)
        self.shapes = shapes

class Anything(Mine):
    def __init__(self, *, state_size: int, query_size: int, **rest: object) -> None:
        super().__init__(state_size=state_size, query_size=query_size, **rest)

class Passes(MemoryAttention):
    def __init__(self, *, temperature: float = 1.0, **rest):
        super().__init__(**rest)

class PassesTwice(Passes):
    def __init__(self, **rest):
        super().__init__(temperature=2.0, **rest)

class Forgets(MemoryAttention):
    def __init__(self, *, state_size: int, query_size: int):
        super().__init__(state_size=state_size, query_size=query_size)

class Needless(LuongAttention):
    def __init__(self, **rest):
        super().__init__(**rest)
"""
Own = Callable[[str], list[str]]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Own:
    """Return a function from a class of ``OWN`` to the arguments that select it."""
    (tmp_path / "own_attentions.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    return lambda name: ["attention=none", f"attention._target_=own_attentions.{name}", "trust=[own_attentions]"]


@pytest.mark.parametrize("name", ["Passes", "PassesTwice"])
def test_rest_receives_the_sizes_of_the_base_class(own: Own, name: str) -> None:
    """Position encodings are scaled by ``max_length``; the default of the base class is 100."""
    config = train_config([*own(name), "+attention.slots=7"])
    attention = build_model(config, **SIZES, trust=["own_attentions"]).attention
    assert (attention.max_length, attention.slots) == (9, 7)


def test_rest_does_not_receive_what_the_base_class_cannot_take(own: Own) -> None:
    build_model(train_config(own("Needless")), **SIZES, trust=["own_attentions"])


def test_sizes_that_do_not_reach_the_base_class_are_refused(own: Own) -> None:
    problem = (
        "attention._target_=own_attentions.Forgets: does not pass max_length on to MemoryAttention, which would use "
    )
    refuse(own("Forgets"), f"{problem}max_length=100; add max_length or **rest")


@pytest.mark.parametrize(
    "word",
    [
        *("rate=2", "rate=0.5", "keep=true", "pair=[1,2]", "shapes={a: 1}", "shape=[3]", "noted=x"),
        *("bounded=null", "bounded=x", "bounded=1"),
    ],
)
def test_values_that_annotations_allow_are_accepted(own: Own, word: str) -> None:
    train_config([*own("Mine"), f"+attention.{word}"])


@pytest.mark.parametrize("name", ["Mine", "Anything"])  # also with **keywords
def test_block_without_target_is_passed_on_as_a_dictionary(own: Own, name: str) -> None:
    config = train_config([*own(name), "+attention.shapes={a: 1}"])
    assert build_model(config, **SIZES, trust=["own_attentions"]).attention.shapes == {"a": 1}


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("rate=abc", "attention.rate=abc: must be a whole number, or must be a number (conf/attention/none.yaml)"),
        ("keep=0", "attention.keep=0: must be at least 1, or must be true or false"),
        ("size=abc", "attention.size=abc: must be a whole number"),
        ("bounded=0", "attention.bounded=0: must be at least 1"),
    ],
)
def test_values_that_annotations_forbid_are_rejected(own: Own, word: str, message: str) -> None:
    refuse([*own("Mine"), f"+attention.{word}"], message)


@pytest.mark.parametrize("file", ["model.pt", "adapter.safetensors", "about.json"])
def test_folder_of_a_model_without_a_key_is_named_as_model(file: str, tmp_path: Path) -> None:
    (tmp_path / file).touch()
    refuse([str(tmp_path)], f"write model={tmp_path}")


@pytest.mark.parametrize(
    ("words", "problems"),
    [
        (
            ["attention.slot=4", "training.max_epoch=1", "sed=4", "seed=x"],
            [
                "attention.slot: no such key; did you mean attention.slots?",
                "training.max_epoch: no such key; did you mean training.max_epochs?",
                "sed: no such key; did you mean seed?",
                "seed=x: must be a whole number (conf/train.yaml)",
            ],
        ),
        (["attention.slots=0", "optimizer.lr=abc", "+a=1"], ["attention.slots=0: ", "optimizer.lr=abc: ", "a=1: "]),
        (
            ["attention=kernel", "attention.key_size=0", "attention.feature_map=no"],
            ["attention.feature_map=no: ", "attention.key_size=0: "],
        ),
        # The other keys may be right for what was meant.
        (["atention=luong", "attention.score=dot"], ["atention: no such key; did you mean attention?"]),
        (["attention=loung", "attention.score=dot"], ["attention=loung: no such choice; did you mean luong?"]),
    ],
)
def test_all_problems_are_reported_at_once(words: list[str], problems: list[str]) -> None:
    with pytest.raises(UserError) as error:
        train_config(words)
    messages = error.value.problems
    assert len(messages) == len(problems) and all(map(str.startswith, messages, problems)), messages
