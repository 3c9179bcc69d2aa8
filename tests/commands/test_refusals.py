"""Each command refuses wrong settings in one line with the value, the problem and the fix, and leaves no files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from builders import write_lines

from nmt.commands.align import align
from nmt.commands.distill import distill
from nmt.commands.evaluate import evaluate
from nmt.commands.export import export
from nmt.commands.heatmap import heatmap
from nmt.commands.prepare import prepare
from nmt.commands.translate import translate
from nmt.errors import UserError

Command = Callable[[list[str]], None]
TRAIN = "output=mine data.train.src=src data.train.tgt=tgt tokenizer.vocab_size=290"
ONLY_GRAPHS = "engine=onnx"
CASES: dict[Command, list[tuple[str, str]]] = {
    translate: [
        ("", "model: "),
        ("model=nowhere", "model=nowhere: "),
        ("model=MODEL input=nowhere.txt", "nowhere.txt: "),
        ("model=MODEL output=nowhere/out.txt", "nowhere/out.txt: "),
        ("model=MODEL search.n_best=6", "search.n_best=6: "),
        ("model=MODEL search.seed=2", "search.seed=2: "),
        ("model=MODEL search.temperature=1 search=greedy", "search.beam_size=1: "),
        ("model=MODEL scores=maybe", "scores=maybe: "),
        ("model=MODEL device=gpu", "device=gpu: "),
        ("model=MODEL device=cuda:99", "device=cuda:99: "),
        ("model=nowhere output=.", ".: cannot write"),  # checked before the model is loaded
        ("model=MODEL output=x alignments=./x", "alignments=./x: "),
        ("model=MODEL input=x output=./x", "input=x: "),
        ("model=MODEL input=x alignments=./x", "alignments=./x: "),
        ("model=MODEL prefix=-", "prefix=-: "),
        ("model=MODEL alignments=-", "alignments=-: "),
        ("model=NONE alignments=x", "alignments=x: "),
        ("in.txt", "in.txt: "),
        ("MODEL", ": not a setting"),
        ("model=MODEL engine=onnx", " has no graphs; "),
        ("model=MODEL engine=onnx device=cuda", "device=cuda: "),
        ("model=MODEL workers=2", "workers=2: "),
        ("model=MODEL workers=0 output=o", "workers=0: "),
        ("model=MODEL workers=2 output=o prefix=p", "prefix=p: "),
        ("model=GRAPHS workers=2 output=no/out", "no/out: "),
        ("model=GRAPHS workers=2 output=o input=missing", "missing: "),
        ("model=GRAPHS engine=torch", ONLY_GRAPHS),
        ("model=GRAPHS device=cuda", " holds only ONNX graphs"),
        ("model=GRAPHS shortlist=true", " has no shortlist; "),
        *(
            (f"model=MODEL format=html output=o {word}", f"{word}: ")
            for word in "workers=2 scores=true alignments=links prefix=p search.n_best=2".split()
        ),
    ],
    evaluate: [
        ("hypotheses=src tgt=tgt evaluation.tokenizer=jp", "evaluation.tokenizer=jp: "),
        ("hypotheses=src tgt=tgt tokenizer=zh", "tokenizer=zh: "),
        ("model=MODEL src=src", "tgt=null: "),
        ("alignments=links", "links=null: "),
        ("alignments=links links=outside model=MODEL", "alignments=links: "),
        ("alignments=links links=outside hypotheses=src", "alignments=links: "),
        ("alignments=links links=outside src=src", "tgt=null: "),
        ("alignments=links links=short", "short has "),
        ("alignments=one links=links", "one:1: 'Hund': not a link"),
        ("alignments=nowhere links=links", "nowhere: "),
        ("tgt=tgt", "hypotheses=null: "),
        ("tgt=tgt hypotheses=src model=MODEL", "hypotheses=src: "),
        ("tgt=tgt model=MODEL", "src=null: "),
        ("tgt=tgt hypotheses=src links=links", "links=links: "),
        ("tgt=tgt hypotheses=src src=src", "src=src: "),
        ("tgt=[one,tgt] hypotheses=src", "tgt=[one, tgt]: "),
        ("tgt=one hypotheses=src", "src has "),
        ("tgt=one model=MODEL src=src", "src has "),
        ("tgt=nowhere hypotheses=src", "nowhere: "),
        ("tgt=empty hypotheses=empty", "empty: "),
        ("tgt=tgt model=MODEL src=src links=outside", "outside:1: 5-5 points outside"),
        ("tgt=tgt model=NONE src=src links=links", "links=links: "),
        ("tgt=tgt hypotheses=src engine=onnx", "engine=onnx: "),
        ("tgt=tgt hypotheses=src search=greedy", "search=greedy: "),
        ("tgt=tgt hypotheses=src search.beam_size=2", "search.beam_size=2: "),
        ("alignments=links links=links lowercase=true", "lowercase=true: "),
        ("tgt=tgt model=MODEL src=src search.n_best=2", "search.n_best=2: "),
    ],
    distill: [
        ("src=src tgt=tgt output=o", "model=null: "),
        ("src=src tgt=tgt output=o model=MODEL translations=tgt", "translations=tgt: "),
        ("src=src tgt=tgt output=src translations=tgt", "output=src: "),
        ("src=src tgt=one output=o translations=tgt", "src has "),
        ("src=src tgt=tgt output=o translations=one", "src has "),
        ("src=src tgt=tgt output=o translations=tgt min_score=-1", "translations: "),
        ("src=src tgt=tgt output=o translations=tgt min_chrf=101", "min_chrf=101: "),
        ("src=src tgt=tgt output=o translations=src search.n_best=2", "search.n_best=2: "),
        ("src=src tgt=one output=o model=GRAPHS", "src has "),
        ("src=nowhere tgt=tgt output=o model=GRAPHS", "nowhere: "),
        ("src=src tgt=tgt output=o translations=tgt workers=2", "workers=2: "),
    ],
    align: [
        ("model=MODEL src=src", "tgt=null: "),
        ("model=MODEL src=- tgt=-", "-: "),
        ("model=MODEL src=src tgt=nowhere", "nowhere: "),
        ("model=MODEL src=src tgt=one", "src has "),
        ("model=NONE src=src tgt=tgt", "model="),
    ],
    heatmap: [
        ("model=MODEL src=src", "output: "),
        ("model=NONE src=src output=o", "model="),
        ("model=MODEL src=nowhere output=o", "nowhere: "),
        ("model=MODEL src=src output=src", "src: "),
        ("model=MODEL src=src output=o limit=0", "limit=0: "),
        ("model=MODEL src=src output=o links=links", "links=links: "),
        ("model=MODEL src=src tgt=tgt output=o search=greedy", "tgt=tgt: "),
        ("model=MODEL src=src tgt=tgt output=o links=links granularity=piece", "links=links: "),
        ("model=MODEL src=src tgt=tgt output=o links=short", "short has "),
        ("model=MODEL src=src tgt=tgt output=o links=outside", "outside:1: "),
        ("model=NESTED src=src output=o slots=true format=html", "format=html: "),
        ("model=NESTED src=src output=o slots=true search.sentences=en", "search.sentences=en: "),
        ("model=NESTED src=src output=o slots=true engine=onnx", "engine=onnx: "),
        ("model=NESTED src=src tgt=tgt links=links output=o slots=true", "links=links: "),
        ("model=GRAPHS src=src tgt=tgt output=o", ONLY_GRAPHS),
    ],
    export: [
        ("model=MODEL output=-", "output=-: "),
        ("model=MODEL corpus=x", "corpus=x: "),
        ("model=MODEL shortlist=5", " has "),
        ("model=MODEL output=.", "output=.: "),
        ("model=GRAPHS output=o", ONLY_GRAPHS),
    ],
    prepare: [
        ("output=mine", "data.train.src=null: "),
        ("output=mine data.train.src=src data.train.tgt=one", "src has "),
        ("output=mine data.train.src=src data.train.tgt=no", "data.train.tgt=no: "),
        (f"{TRAIN} data.valid.tgt=tgt", "data.valid.src=null: "),
        (f"{TRAIN} tokenizer.vocab_size=100000", "tokenizer.vocab_size=100000: "),
        ("output=mine tokenizer=[]", "tokenizer=[]: "),
        (f"{TRAIN} tokenizer.vocab_size=0", "tokenizer.vocab_size=0: "),
        (f"{TRAIN} tokenizer.vocab_size=[300,1]", "tokenizer.vocab_size"),
        (f"{TRAIN} tokenizer.model=tgt", "tgt: "),
        (f"{TRAIN} data.test.links=tgt", "data.test.src=null: "),
        (f"{TRAIN} data.max_length=1", "0 of 4 pairs kept"),
        (f"{TRAIN} data=txt", "data=txt: "),
        (f"{TRAIN} data._target_=os.walk", "data._target_=os.walk: "),
        (f"{TRAIN} trust=null", "trust=null: "),
        ("output=o data=prepared data.folder=x", "data=prepared: "),
        ("output=mine data=prepared", "data=prepared: "),
        (f"{TRAIN} output=src", "output=src: "),
        (f"{TRAIN} output=src/mine", "src: "),
    ],
}


@pytest.mark.parametrize(
    ("command", "words", "message"),
    [
        pytest.param(command, *case, id=f"{command.__name__} {case[0]}")
        for command, cases in CASES.items()
        for case in cases
    ],
)
def test_one_error_line_and_no_files(
    command: Command,
    words: str,
    message: str,
    model: Path,
    model_without_attention: Path,
    nested: Path,
    deployment: Path,
    files: Path,
) -> None:
    write_lines("one", ["Hund"])
    write_lines("short", ["0-0"])
    write_lines("links", ["0-0", "", "", ""])
    write_lines("outside", ["5-5", "", "", ""])
    write_lines("empty", [])
    before = sorted(files.rglob("*"))
    for name, place in {
        "MODEL": model,
        "NONE": model_without_attention,
        "NESTED": nested,
        "GRAPHS": deployment,
    }.items():
        words = words.replace(name, str(place))
    with pytest.raises(UserError) as caught:
        command(words.split())
    assert message in caught.value.problems[0] and "\n" not in caught.value.problems[0]
    assert len(caught.value.problems) == 1 or command is prepare
    assert sorted(files.rglob("*")) == before
