"""The table in docs/decoding.md: each option works with a search method, every engine and attention, or is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nmt.commands.translate import TranslateOptions
from nmt.config.overrides import read_options
from nmt.errors import UserError
from nmt.inference.engines import EngineName
from nmt.inference.translation import Translation
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "decoding.md").read_text(encoding="utf-8")
[ROWS] = re.findall(r"^\| option \| (.+) \|\n\|[-|]+\|\n((?:\|.+\|\n)+)", PAGE, re.MULTILINE)
METHODS = {
    "greedy": ["search=greedy"],
    "beam": ["search.beam_size=4"],
    "sampling": ["search.temperature=0.8"],
}
TABLE = {
    (options.strip(" `"), method): word
    for line in ROWS[1].splitlines()
    for options, *words in [[cell.strip() for cell in line.strip("|").split("|")]]
    for method, word in zip(ROWS[0].split(" | "), words, strict=True)
}
ALL = pytest.mark.parametrize(("options", "method"), TABLE)
LINES = ["a dog", "two small cats sleep here today", "red", "", "a small dog. two red houses! cats sleep here"]


def read(options: str, method: str) -> SearchOptions:
    """Return the search options of a command line. Raises UserError if it is refused."""
    words = [f"search.{word}" for word in options.split()]
    return read_options("translate", TranslateOptions, ["model=x", *METHODS[method], *words]).search


@pytest.fixture(autouse=True)
def terms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the glossary that the table names."""
    (tmp_path / "terms.tsv").write_text("small dog\ta dog\nred\ttoday\n", "utf-8")
    monkeypatch.chdir(tmp_path)


def has_word(best: Translation, word: str) -> bool:
    return re.search(rf"\b{word}\b", best.text, re.IGNORECASE) is not None


Check = Callable[[Translation, SearchOptions], bool]
CHECKS: dict[str, Check] = {
    "min_length": lambda best, options: len(pieces(best)) >= options.min_length,
    "max_length": lambda best, options: len(pieces(best)) <= (options.max_length or 0),
    "max_length_ratio": lambda best, options: len(pieces(best)) <= 0.6 * len(best.source_tokens) + 1,
    "glossary": lambda best, options: "▁red</s>" not in "".join(best.source_tokens) or has_word(best, "today"),
    "n_best": lambda best, options: 1 <= len(best.n_best) <= 3,
}


def pieces(best: Translation) -> list[str]:
    return [token for token in best.tokens if token != "</s>"]


def tokens_and_scores(translations: list[Translation]) -> tuple[list[list[str]], np.ndarray]:
    every = [best for line in translations for best in line.n_best]
    return [best.tokens for best in every], np.array([best.score for best in every])


@ALL
def test_table_says_which_options_are_refused(options: str, method: str) -> None:
    if TABLE[options, method] == "refused":
        with pytest.raises(UserError, match=r"^search\.\w+=[^\n]+: [^\n]+$"):
            read(options, method)
    else:
        assert TABLE[options, method] == "yes"
        read(options, method)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "engine"), [("feeding", "torch"), ("memory", "torch"), ("memory", "onnx"), ("feeding", "onnx-int8")]
)
@pytest.mark.filterwarnings("ignore:search.replace_unknown=true", "ignore:source text")
def test_options_of_the_table_hold_with_every_engine_and_in_every_batch(
    name: str, engine: EngineName, exported_model: Callable[[str], Path]
) -> None:
    translator = Translator.load(exported_model(name), engine=engine, device="cpu", threads=1)
    for (options, method), word in TABLE.items():
        if word == "refused":
            continue
        search = read(options, method)
        together = translator.translate(LINES, search)
        alone = [translator.translate([line], search)[0] for line in LINES[1::3]]
        (tokens, scores), (expected, expected_scores) = map(tokens_and_scores, (together[1::3], alone))
        assert tokens == expected
        np.testing.assert_allclose(scores, expected_scores, rtol=1e-5)
        for line, translation in zip(LINES, together, strict=True):
            for best in translation.n_best:
                assert best.text or not search.min_length
                assert best.alignment is not None
                assert best.alignment.shape == (len(best.tokens), len(best.source_tokens))
                for name in CHECKS.keys() & {word.partition("=")[0] for word in options.split()}:
                    assert CHECKS[name](translation, search), (options, method, line)
            assert bool(translation.n_best) == bool(line)
