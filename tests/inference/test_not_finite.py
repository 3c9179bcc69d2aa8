"""A model whose scores overflow never translates a line to nothing without a word, with any engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from builders import BAHDANAU, random_trained, tiny_config

from nmt.commands.evaluate import evaluate
from nmt.commands.heatmap import heatmap
from nmt.commands.translate import translate
from nmt.errors import UserError
from nmt.inference.forced_decoding import force_decode, forced_links
from nmt.inference.memories import encode_line, translate_encoded
from nmt.inference.model_folder import save_folder
from nmt.inference.onnx.export import export
from nmt.inference.translation import SCORES_NOT_FINITE
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.text.tokenizer import Tokenizer

pytestmark = pytest.mark.thorough

LINES = ["a dog", "", "two cats sleep"]
METHODS = [SearchOptions(), SearchOptions(beam_size=1), SearchOptions(temperature=1.0, n_best=2)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an exported model whose weights are finite, but whose scores are not."""
    folder = tmp_path_factory.mktemp("overflow")
    tokenizer = Tokenizer.train(["a small dog sees red houses", "two cats sleep here today"], vocab_size=290)
    trained = random_trained(tiny_config(BAHDANAU), tokenizer, scale=20)
    with torch.no_grad():  # features of 1, so that their sum overflows in any order
        trained.model.decoder.combine.weight.zero_()
        trained.model.decoder.combine.bias.fill_(20)
        trained.model.decoder.output.weight.fill_(3e38)
    save_folder(folder, trained)
    export(trained, folder, None)
    return folder


@pytest.mark.parametrize("options", METHODS, ids=["beam", "greedy", "sample"])
@pytest.mark.parametrize("engine", ["torch", "onnx"])
def test_lines_without_finite_scores_are_reported(engine: str, options: SearchOptions, folder: Path) -> None:
    translator = Translator.load(folder, engine=engine, device="cpu")  # type: ignore[arg-type]
    failed: list[tuple[int, str]] = []
    translations = translator.translate(LINES, options, on_failure=lambda row, reason: failed.append((row, reason)))
    assert failed == [(0, SCORES_NOT_FINITE), (2, SCORES_NOT_FINITE)]
    assert [(best.text, best.log_prob) for best in translations] == [("", -torch.inf), ("", 0.0), ("", -torch.inf)]
    with pytest.raises(UserError, match=r"^lines\[0\]: the model's scores are not finite"):
        translator.texts(LINES, options)


def test_memories_without_finite_scores_are_reported(folder: Path) -> None:
    translator = Translator.load(folder, engine="torch", device="cpu")
    with pytest.raises(UserError, match="the model's scores are not finite"):
        translate_encoded(translator, [encode_line(translator, "a dog")])
    failed: list[tuple[int, str]] = []
    lines = [encode_line(translator, line) for line in LINES]
    translations = translate_encoded(translator, lines, on_failure=lambda *failure: failed.append(failure))
    assert failed == [(0, SCORES_NOT_FINITE), (2, SCORES_NOT_FINITE)]
    assert [best.log_prob for best in translations] == [-torch.inf, 0.0, -torch.inf]


def test_given_translations_without_finite_scores_are_reported(folder: Path) -> None:
    translator = Translator.load(folder, engine="torch", device="cpu")
    failed: list[tuple[int, str]] = []
    for function, empty in ((force_decode, -torch.inf), (forced_links, frozenset())):
        results = function(translator, LINES, LINES, on_failure=lambda *failure: failed.append(failure))
        assert [getattr(result, "log_prob", result) for result in results] == [empty] * 3
        with pytest.raises(UserError, match=r"^pairs\[0\]: the model's scores are not finite"):
            function(translator, LINES, LINES)
    assert failed == [(row, SCORES_NOT_FINITE) for row in range(3)] * 2


@pytest.mark.parametrize(
    ("command", "words", "lines", "consequence"),
    [
        (translate, "input={}/in output={}/out engine=torch", LINES, "its translation is empty"),
        (evaluate, "src={}/in tgt={}/in links={}/links", ["a dog", "two cats"], "it is not aligned"),
        (heatmap, "src={}/in tgt={}/in output={}/pictures", ["a dog", "two cats"], "it is not aligned"),
    ],
)
def test_commands_warn_of_each_line(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: Callable[[list[str]], object],
    words: str,
    lines: list[str],
    consequence: str,
) -> None:
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "links").write_text("0-0\n1-1\n")
    command([f"model={folder}", *words.replace("{}", str(tmp_path)).split()])
    output = capsys.readouterr()
    assert [line for line in output.err.splitlines() if consequence in line] == [
        f"warning: {tmp_path}/in:{row}: {SCORES_NOT_FINITE}; {consequence}"
        for row, line in enumerate(lines, start=1)
        if line
    ]
    if command is translate:
        assert (tmp_path / "out").read_text() == "\n\n\n"
    elif command is evaluate:
        assert "AER 1.0000" in output.out  # no link is found
    else:
        assert output.out == "" and not list((tmp_path / "pictures").glob("[!.]*"))
