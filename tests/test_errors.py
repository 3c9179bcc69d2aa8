"""Messages count correctly: 1 line, 2 lines."""

from __future__ import annotations

import ast
import errno
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from nmt.errors import counted, suggest_fix

ROOT = Path(__file__).resolve().parents[1]
NOUNS = (
    "epochs files lines links memories pairs pieces references sentences sources tabs targets translations validations "
    "values words"
)
COUNT = re.compile(rf" (\w+ )?({'|'.join(NOUNS.split())})\b(?!/)")
# At least 2, or not a count.
ALLOWED = {
    "nmt/commands/heatmap.py": "words, pieces",  # "3 × 4 words"
    "nmt/commands/translate.py": "pieces",  # a constant
    "nmt/config/checks.py": "pieces",  # "word pieces have no merges"
    "nmt/training/settings.py": "translations",  # "valid_bleu needs translations"
    "nmt/inference/reader.py": "pieces",  # only a long source exceeds what an attention holds
    "nmt/inference/translation.py": "pieces",  # a constant
    "nmt/files/reading.py": "values",  # a constant
    "nmt/grammar/corpus.py": "sentences",
    "nmt/server/answers.py": "pieces",  # a constant
    "nmt/data/links.py": "links, words",  # "file has links of …", "'0-1' counts words from 0"
    "nmt/text/bpe_dropout.py": "pieces",  # "word pieces"
    "nmt/text/sampled.py": "pieces",  # "word pieces"
    "nmt/text/tokenizer.py": "pieces",  # a tokenizer has 4 special pieces
    "nmt/training/weights.py": "pieces",  # only a long source exceeds what an attention holds
    "nmt/training/report.py": "words",  # a constant
}


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 lines"), (1, "1 line"), (2, "2 lines"), (1234, "1,234 lines"), (-1, "-1 lines")]
)
def test_nouns_agree_with_their_number(number: int, text: str) -> None:
    assert counted(number, "line") == text


def test_irregular_plural() -> None:
    assert [counted(number, "memory", "memories") for number in (1, 2)] == ["1 memory", "2 memories"]


def plurals(code: str) -> Iterator[str]:
    """Yield the plural nouns that follow a value in an f-string."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.JoinedStr):
            for value, text in zip(node.values, node.values[1:], strict=False):
                match = COUNT.match(str(text.value)) if isinstance(text, ast.Constant) else None
                if isinstance(value, ast.FormattedValue) and match:
                    yield match[2]


def test_plural_after_a_value_is_found() -> None:
    assert list(plurals("""f"{n} lines, {m:,} source pieces, {r} lines/s, {k} faster lines" """)) == [
        "lines",
        "pieces",
        "lines",
    ]


def test_messages_use_the_function_that_counts() -> None:
    for path in sorted((ROOT / "nmt").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        wrong = [noun for noun in plurals(path.read_text("utf-8")) if noun not in ALLOWED.get(name, "")]
        assert not wrong, f"{name}: {wrong}; use nmt.errors.counted"


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.EAGAIN])
def test_missing_memory_has_its_own_advice(number: int) -> None:
    assert suggest_fix(OSError(number, "")) == "memory or processes ran out: lower workers= or threads="
