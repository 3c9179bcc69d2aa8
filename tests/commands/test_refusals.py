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
ONLY_GRAPHS = "wrote it for engine=onnx only; name the folder of the tra"
NO_STDOUT = "output=-: must be the name of a folder: - is stdout, "
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
        ("MODEL", ": not a setting; write model="),
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
        ("hypotheses=src tgt=tgt evaluation.tokenizer=jp", "evaluation.tokenizer=jp: unknown to sacrebleu; "),
        ("hypotheses=src tgt=tgt tokenizer=zh", "tokenizer: no such key; did you mean evaluation.tokenizer?"),
        ("model=MODEL src=src", "tgt=null: no references; add tgt=FILE"),
        ("alignments=links", "links=null: alignments=links needs gold links; add links=FILE"),
        ("alignments=links links=outside model=MODEL", "alignments=links: model="),
        ("alignments=links links=outside hypotheses=src", "alignments=links: hypotheses=src is given too"),
        ("alignments=links links=outside src=src", "tgt=null: links are checked against both texts or none"),
        ("alignments=links links=short", "short has 1 line of links for 4 sentences"),
        ("alignments=one links=links", "one:1: 'Hund': not a link"),
        ("alignments=nowhere links=links", "nowhere: No such file"),
        ("tgt=tgt", "hypotheses=null: nothing to score"),
        ("tgt=tgt hypotheses=src model=MODEL", "give only one of them"),
        ("tgt=tgt model=MODEL", "add src=FILE"),
        ("tgt=tgt hypotheses=src links=links", "AER needs alignments; replace hypotheses= by model=FOLDER"),
        ("tgt=tgt hypotheses=src src=src", "src=src: hypotheses=src needs no source text; remove src="),
        ("tgt=[one,tgt] hypotheses=src", "tgt=[one, tgt]: must be text; give one ("),
        ("tgt=one hypotheses=src", "src has 4 lines, one has 1 line"),
        ("tgt=one model=MODEL src=src", "src has 4 lines, one has 1 line"),
        ("tgt=nowhere hypotheses=src", "nowhere: No such file"),
        ("tgt=empty hypotheses=empty", "empty: empty file"),
        ("tgt=tgt model=MODEL src=src links=outside", "outside:1: 5-5 points outside"),
        ("tgt=tgt model=NONE src=src links=links", "no attention"),
        ("tgt=tgt model=MODEL src=src links_base=2", "links_base=2: must be 0 | 1"),
        (
            "tgt=tgt hypotheses=src engine=onnx",
            "engine=onnx: has an effect only with model=; add it, or remove engine=",
        ),
        ("tgt=tgt hypotheses=src search=greedy", "search=greedy: has an effect only with model=; add it"),
        ("tgt=tgt hypotheses=src search.beam_size=2", "search.beam_size=2: has an effect only with model=; add it"),
        (
            "alignments=links links=links lowercase=true",
            "lowercase=true: has an effect only with model= or hypotheses=",
        ),
        ("tgt=tgt model=MODEL src=src links_base=1", "links_base=1: has an effect only with links=; add it, or remove"),
        (
            "tgt=tgt model=MODEL src=src search.n_best=2",
            "search.n_best=2: only the best translation of a line is score",
        ),
        ("tgt=tgt hypotheses=src alignments_base=1", "alignments_base=1: has an effect only with alignments=; "),
    ],
    distill: [
        ("src=src tgt=tgt output=o", "model=null: no teacher; give model=FOLDER, or translations=FILE"),
        ("src=src tgt=tgt output=o model=MODEL translations=tgt", "translations=tgt: model="),
        ("src=src tgt=tgt output=src translations=tgt", "output=src: already exists; choose another folder"),
        ("src=src tgt=one output=o translations=tgt", "src has 4 lines, one has 1 line"),
        ("src=src tgt=tgt output=o translations=one", "src has 4 lines, one has 1 line"),
        ("src=src tgt=tgt output=o translations=tgt min_score=-1", "translations: line 1 must be a score, a tab"),
        ("src=src tgt=tgt output=o translations=tgt min_chrf=101", "min_chrf=101: must be at most 100"),
        (
            "src=src tgt=tgt output=o translations=src search.n_best=2",
            "search.n_best=2: has an effect only with model=; add it, or remove",
        ),
        ("src=src tgt=one output=o model=GRAPHS", "src has 4 lines, one has 1 line"),
        ("src=nowhere tgt=tgt output=o model=GRAPHS", "nowhere: No such file"),
        ("src=src tgt=tgt output=- translations=tgt", NO_STDOUT),
        ("src=src tgt=tgt output=o translations=tgt workers=2", "workers=2: has an effect only with model=; add it"),
    ],
    align: [
        ("model=MODEL src=src", "tgt=null: a file of one side is not enough; add tgt=FILE"),
        ("model=MODEL src=- tgt=-", "-: stdin is one file, not 2; name the other files"),
        ("model=MODEL src=src tgt=nowhere", "nowhere: No such file"),
        ("model=MODEL src=src tgt=one", "src has 4 lines, one has 1 line:"),
        ("model=NONE src=src tgt=tgt", "this model has no attention"),
    ],
    heatmap: [
        ("model=MODEL src=src", "output: must be given"),
        ("model=MODEL src=src output=-", NO_STDOUT),
        ("model=MODEL src=src output=~/x", "output=~/x: must be the name of a folder: "),
        ("model=NONE src=src output=o", "no attention"),
        ("model=MODEL src=nowhere output=o", "nowhere: No such file"),
        ("model=MODEL src=src output=src", "src: cannot be used: Not a directory; choose another output="),
        ("model=MODEL src=src output=o limit=0", "limit=0: must be at least 1"),
        ("model=MODEL src=src output=o links=links", "add tgt=FILE"),
        (
            "model=MODEL src=src output=o links_base=1",
            "links_base=1: has an effect only with links=; add it, or remove",
        ),
        (
            "model=MODEL src=src tgt=tgt output=o search=greedy",
            "tgt=tgt: given translations are not searched for; remo",
        ),
        ("model=MODEL src=src tgt=tgt output=o links=links granularity=piece", "use granularity=word"),
        ("model=MODEL src=src tgt=tgt output=o links=short", "short has 1 line of links for 4 sentences"),
        ("model=NESTED src=src output=o slots=true format=html", "format=html: slots=true draws pictures; use format="),
        (
            "model=NESTED src=src output=o slots=true search.sentences=en",
            "search.sentences=en: each sentence has its own slots; remove search.sentences, or write each",
        ),
        ("model=NESTED src=src output=o slots=true engine=onnx", "engine=onnx: slots=true needs engine=torch; remove"),
        (
            "model=NESTED src=src tgt=tgt links=links output=o slots=true",
            "slots=true draws pieces, and links connect words; remove links=",
        ),
        ("model=GRAPHS src=src tgt=tgt output=o", ONLY_GRAPHS),
    ],
    export: [
        ("model=MODEL output=-", NO_STDOUT),
        ("model=MODEL corpus=x", "corpus=x: a shortlist learns from it; add shortlist=20, or remove corpus="),
        ("model=MODEL shortlist=5", " has no training text to learn from; set corpus=FOLDER"),
        ("model=MODEL output=.", "output=.: already exists; choose another folder"),
        ("model=GRAPHS output=o", ONLY_GRAPHS),
    ],
    prepare: [
        ("output=mine", "data.train.src=null: must be given"),
        (f"{TRAIN} output=-", NO_STDOUT),
        ("output=mine data.train.src=src data.train.tgt=one", "src has 4 lines, one has 1 line"),
        ("output=mine data.train.src=src data.train.tgt=no", "data.train.tgt=no: no such file in "),
        (f"{TRAIN} data.valid.tgt=tgt", "data.valid.src=null: must be given"),
        (f"{TRAIN} tokenizer.vocab_size=100000", "tokenizer.vocab_size=100000: this text yields at most"),
        ("output=mine tokenizer=[]", "tokenizer: missing"),
        (f"{TRAIN} tokenizer.vocab_size=0", "tokenizer.vocab_size=0: must be at least 5 (conf/tokenizer/bpe.yaml)"),
        (
            f"{TRAIN} tokenizer.joint=false tokenizer.source_model=tgt tokenizer.source_vocab_size=300",
            "tokenizer.source_vocab_size=300: your own model has its own; remove this setting",
        ),
        (f"{TRAIN} tokenizer.target_model=tgt", "tokenizer.target_model=tgt: a joint vocabulary reads tokenizer.sour"),
        (f"{TRAIN} tokenizer.source_model=tgt tokenizer.normalisation=nfkc", "tokenizer.normalisation=nfkc: your own"),
        (f"{TRAIN} data.test.links=tgt", "data.test.src=null: must be given"),
        (f"{TRAIN} data.max_length=1", "0 of 4 pairs kept"),
        (f"{TRAIN} data=txt", "data=txt: no such choice; did you mean text?"),
        (f"{TRAIN} data._target_=os.walk", "data._target_=os.walk: package 'os' is not trusted"),
        (f"{TRAIN} trust=null", "trust=null: must be a list"),
        ("output=o data=prepared data.folder=x", "data=prepared: data.folder=x is already prepared; set data=text"),
        ("output=mine data=prepared", "data=prepared: reads text that is already prepared; set data=text"),
        (f"{TRAIN} output=src", "output=src: already exists"),
        (f"{TRAIN} output=src/mine", "src/mine: cannot write: Not a directory"),
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
