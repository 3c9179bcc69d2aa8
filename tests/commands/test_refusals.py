"""Each command refuses wrong settings in one line that starts with the key or the value, and leaves no files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders import write_lines

from nmt.commands.align import align
from nmt.commands.distill import distill
from nmt.commands.evaluate import evaluate
from nmt.commands.export import export
from nmt.commands.heatmap import heatmap
from nmt.commands.prepare import prepare
from nmt.commands.serve import listen, serve
from nmt.commands.translate import translate
from nmt.errors import UserError

Command = Callable[[list[str]], None]
TRAIN = "output=mine data.train.src=src data.train.tgt=tgt tokenizer.vocab_size=290"
PLACES = {
    "MODEL": "model",
    "NONE": "model_without_attention",
    "NESTED": "nested",
    "GRAPHS": "deployment",
    "BUSY": "busy",
}
"""The fixtures of the folders and of the port in the table."""
CASES: dict[Command, list[tuple[str, str]]] = {
    translate: [
        ("", "model: "),
        ("model=nowhere", "model=nowhere: "),
        ("in.txt", "in.txt: "),
        ("model=MODEL input=nowhere.txt", "nowhere.txt: "),
        ("model=MODEL output=nowhere/out.txt", "nowhere/out.txt: "),
        ("model=nowhere output=.", ".: "),  # checked before the model is loaded
        ("model=MODEL search.n_best=6", "search.n_best=6: "),
        ("model=MODEL search.temperature=1 search=greedy", "search.beam_size=1: "),
        ("model=MODEL scores=maybe", "scores=maybe: "),
        ("model=MODEL device=cuda:99", "device=cuda:99: "),
        ("model=MODEL output=x alignments=./x", "alignments=./x: "),
        ("model=MODEL input=x output=./x", "input=x: "),
        ("model=MODEL prefix=-", "prefix=-: "),
        ("model=MODEL alignments=-", "alignments=-: "),
        ("model=NONE alignments=x", "alignments=x: "),
        ("model=MODEL engine=onnx", "engine=onnx: "),
        ("model=MODEL engine=onnx device=cuda", "device=cuda: "),
        ("model=MODEL engine=onnx-int8 shortlist=true", "engine=onnx-int8: "),
        ("model=MODEL engine=torch shortlist=true", "shortlist=true: "),
        ("model=MODEL workers=2", "workers=2: "),
        ("model=MODEL workers=2 output=o prefix=p", "prefix=p: "),
        ("model=GRAPHS workers=2 output=no/out", "no/out: "),
        ("model=GRAPHS workers=2 output=o input=missing", "missing: "),
        ("model=GRAPHS engine=torch", "model=GRAPHS: "),
        ("model=GRAPHS device=cuda", "device=cuda: "),
        ("model=GRAPHS shortlist=true", "shortlist=true: "),
        *(
            (f"model=MODEL format=html output=o {word}", f"{word}: ")
            for word in "workers=2 scores=true alignments=links prefix=p search.n_best=2".split()
        ),
    ],
    evaluate: [
        ("tgt=tgt", "hypotheses=null: "),
        ("hypotheses=src tgt=tgt evaluation.tokenizer=jp", "evaluation.tokenizer=jp: "),
        ("hypotheses=src tgt=tgt tokenizer=zh", "tokenizer=zh: "),
        ("model=MODEL src=src", "tgt=null: "),
        ("tgt=tgt model=MODEL", "src=null: "),
        ("alignments=links", "links=null: "),
        ("alignments=links links=outside model=MODEL", "alignments=links: "),
        ("alignments=links links=outside hypotheses=src", "alignments=links: "),
        ("alignments=links links=outside src=src", "tgt=null: "),
        ("alignments=links links=outside tgt=tgt", "src=null: "),
        ("alignments=links links=short", "4 lines "),
        ("alignments=one links=links", "one:1: "),
        ("tgt=tgt hypotheses=src model=MODEL", "hypotheses=src: "),
        ("tgt=tgt hypotheses=src links=links", "links=links: "),
        ("tgt=tgt hypotheses=src src=src", "src=src: "),
        ("tgt=[one,tgt] hypotheses=src", "tgt=[one, tgt]: "),
        ("tgt=one hypotheses=src", "src has "),
        ("tgt=empty hypotheses=empty", "empty: "),
        ("tgt=tgt model=MODEL src=src links=outside", "outside:1: "),
        ("tgt=tgt model=NONE src=src links=links", "links=links: "),
        ("tgt=tgt hypotheses=src engine=onnx", "engine=onnx: "),
        ("tgt=tgt hypotheses=src search.beam_size=2", "search.beam_size=2: "),
        ("alignments=links links=links lowercase=true", "lowercase=true: "),
        ("tgt=tgt model=MODEL src=src search.n_best=2", "search.n_best=2: "),
    ],
    distill: [
        ("src=src tgt=tgt output=o", "model=null: "),
        ("src=src tgt=tgt output=o model=MODEL translations=tgt", "translations=tgt: "),
        ("src=src tgt=tgt output=src translations=tgt", "output=src: "),
        ("src=src tgt=one output=o translations=tgt", "src has "),
        ("src=src tgt=tgt output=o translations=one", "translations=one: "),
        ("src=src tgt=tgt output=o translations=scored", "scored:2: "),
        ("src=src tgt=tgt output=o translations=tgt min_chrf=101", "min_chrf=101: "),
        ("src=src tgt=tgt output=o translations=src min_chrf=100 rejected=drop", "src=src: "),
        ("src=src tgt=tgt output=o translations=src search.n_best=2", "search.n_best=2: "),
        ("src=src tgt=one output=o model=GRAPHS", "src has "),
        ("src=src tgt=tgt output=o translations=tgt workers=2", "workers=2: "),
    ],
    align: [
        ("model=MODEL src=src", "tgt=null: "),
        ("model=MODEL src=- tgt=-", "tgt=-: "),
        ("model=MODEL src=src tgt=one", "src has "),
        ("model=NONE src=src tgt=tgt", "model="),
    ],
    heatmap: [
        ("model=MODEL src=src", "output: "),
        ("model=NONE src=src output=o", "model="),
        ("model=MODEL src=src output=src", "src: "),
        ("model=MODEL src=src output=o limit=0", "limit=0: "),
        ("model=MODEL src=src output=o links=links", "links=links: "),
        ("model=MODEL src=src tgt=tgt output=o search=greedy", "tgt=tgt: "),
        ("model=MODEL src=src tgt=tgt output=o links=links granularity=piece", "links=links: "),
        ("model=MODEL src=src tgt=tgt output=o links=short", "short has "),
        ("model=MODEL src=src tgt=tgt output=o links=outside", "outside:1: "),
        ("model=MODEL src=src tgt=tgt output=o granularity=slot", "granularity=slot: "),
        ("model=NESTED src=src output=o granularity=slot format=html", "format=html: "),
        ("model=NESTED src=src output=o granularity=slot search.sentences=en", "search.sentences=en: "),
        ("model=NESTED src=src output=o granularity=slot engine=onnx", "engine=onnx: "),
        ("model=GRAPHS src=src tgt=tgt output=o", "model=GRAPHS: "),
    ],
    serve: [
        ("", "model=: "),
        ("model=a models=[en:de=a]", "model=: "),
        ("model=a", "model=: "),
        ("models=[en:de=a] languages=en:de", "model=: "),
        ("model=a languages=en", "languages=en=a: "),
        ("model=[] languages=en:de", "languages=en:de=: "),
        ("models=[en:de]", "models=en:de: "),
        ("model=a languages=en:de port=70000", "port=70000: "),
        ("model=a languages=en:de port=BUSY", "host=127.0.0.1 port=BUSY: "),
        ("model=a languages=en:de keys=absent", "keys=absent: "),
        ("model=a languages=en:de keys=/dev/null", "keys=/dev/null: "),
        ("model=a languages=en:de port=0", "model=a: "),
        ("model=a languages=en:de search.n_best=2", "search.n_best=2: "),
        ("model=a languages=en:de search.sentences=english", "search.sentences=english: "),
        ("model=a languages=en:de hosts=[a,https://b.example]", "hosts=https://b.example: "),
        ("model=a languages=en:de hosts=[b.example:443]", "hosts=b.example:443: "),
    ],
    export: [
        ("model=MODEL output=-", "output=-: "),
        ("model=MODEL shortlist=5", "data.folder="),
        ("model=MODEL output=.", "output=.: "),
        ("model=GRAPHS output=o", "model=GRAPHS: "),
    ],
    prepare: [
        ("output=mine", "data.train.src=null: "),
        ("output=mine data.train.src=src data.train.tgt=one", "src has "),
        ("output=mine data.train.src=src data.train.tgt=no", "data.train.tgt=no: "),
        (f"{TRAIN} data.valid.tgt=tgt", "data.valid.src=null: "),
        (f"{TRAIN} tokenizer.vocab_size=100000", "tokenizer.vocab_size=100000: "),
        ("output=mine tokenizer=[]", "tokenizer=[]: "),
        (f"{TRAIN} tokenizer.vocab_size=[300,1]", "tokenizer.vocab_size"),
        (f"{TRAIN} tokenizer.model=tgt", "tgt: "),
        (f"{TRAIN} data.test.links=tgt", "data.test.src=null: "),
        (f"{TRAIN} data.max_length=1", "data.train: "),
        (f"{TRAIN} data=txt", "data=txt: "),
        (f"{TRAIN} data._target_=os.walk", "data._target_=os.walk: "),
        (f"{TRAIN} trust=null", "trust=null: "),
        (f"{TRAIN} trust=[1]", "trust[0]=1: "),
        ("output=mine data=prepared", "data=prepared: "),
        (f"{TRAIN} output=src", "output=src: "),
        (f"{TRAIN} output=src/mine", "src: "),
    ],
}


@pytest.fixture
def busy() -> Iterator[int]:
    """A port on which somebody listens."""
    with listen("127.0.0.1", 0) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize(
    ("command", "words", "start"),
    [
        pytest.param(
            command, *case, id=f"{command.__name__} {case[0]}", marks=[pytest.mark.thorough] * ("GRAPHS" in case[0])
        )
        for command, cases in CASES.items()
        for case in cases
    ],
)
def test_one_error_line_and_no_files(
    command: Command, words: str, start: str, files: Path, request: pytest.FixtureRequest
) -> None:
    for name, lines in {
        "one": ["Hund"],
        "short": ["0-0"],
        "empty": [],
        "scored": ["Hund", "-0.500000\tHund", "", ""],
    }.items():
        write_lines(name, lines)
    for name, line in {"links": "0-0", "outside": "5-5"}.items():
        write_lines(name, [line, "", "", ""])
    before = sorted(files.rglob("*"))
    for name, fixture in PLACES.items():
        if name in words:
            place = str(request.getfixturevalue(fixture))
            words, start = words.replace(name, place), start.replace(name, place)
    with pytest.raises(UserError) as caught:
        command(words.split())
    assert caught.value.problems[0].startswith(start) and "\n" not in caught.value.problems[0]
    assert len(caught.value.problems) == 1 or command is prepare
    assert sorted(files.rglob("*")) == before
