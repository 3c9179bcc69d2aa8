"""Corpus scores (BLEU, chrF, TER), each with the sacrebleu signature that describes how it was computed.

BLEU counts the tokens of a sacrebleu tokenizer. By default, the script of the references chooses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from nmt.errors import UserError, counted
from nmt.settings.arguments import text_list

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.ter import TER

    from nmt.text.writing import Writing

KEY = "evaluation.tokenizer"
DEFAULT = "13a"
CHARACTERS = "char"
BY_WORDS = ("13a", "intl", "none")  # tokenizers that take words between spaces as they are, or split off punctuation
EXTRAS = {"ja-mecab": "ja", "ko-mecab": "ko"}  # tokenizers that need packages, and the extra that installs them


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
    """The tokenizer of BLEU, and the message that explains it; None where nobody would expect another one."""

    tokenizer: str
    reason: str | None = None


def ignore_case(lowercase: bool | None, *, trained_on_lowercase: bool) -> bool:
    """Return whether scores ignore case: as ``lowercase`` says, or, for None, as the model was trained."""
    return trained_on_lowercase if lowercase is None else lowercase


def stored_tokenizer(config: Mapping[str, Any]) -> str | None:
    """Return ``evaluation.tokenizer`` of a run's configuration, which may come from an earlier version."""
    block = config.get("evaluation")
    tokenizer = block.get("tokenizer") if isinstance(block, Mapping) else None
    return tokenizer if isinstance(tokenizer, str) else None


@cache
def require_tokenizer(name: str) -> None:
    """Raise UserError unless sacrebleu has the tokenizer ``name``, and everything that it needs is installed."""
    from sacrebleu.metrics.bleu import BLEU

    names = sorted(BLEU.TOKENIZERS)
    if name not in names:
        from difflib import get_close_matches

        near = get_close_matches(name, names, 1, 0.4)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UserError(f"{KEY}={name}: unknown to sacrebleu; {hint}Choose one of {' | '.join(names)}")
    try:
        BLEU(tokenize=name)
    except (Exception, SystemExit) as error:  # tokenizers raise RuntimeError, URLError, LockException, …
        if name in EXTRAS:
            extra = EXTRAS[name]
            fix = f"pip install 'nmt-memory-attention[{extra}]', or choose {KEY}={CHARACTERS}"
            raise UserError(f"{KEY}={name}: its packages are not installed; {fix}") from None
        reason = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
        raise UserError(
            f"{KEY}={name}: its model cannot be loaded ({reason:.120}); connect to the internet once, "
            f"or choose {KEY}={CHARACTERS}"
        ) from None


def choose_tokenizer(references: Sequence[str], wanted: str | None = None) -> Choice:
    """Return the ``wanted`` tokenizer, or that which fits the script of the ``references``.

    Languages with spaces keep sacrebleu's default, 13a.
    """
    if wanted is not None:
        require_tokenizer(wanted)
        return Choice(wanted)
    from nmt.text.writing import writing_of

    writing = writing_of(references)
    if writing.kind == "spaced":
        return Choice(DEFAULT)
    if writing.kind == "Korean":
        return Choice(DEFAULT, f"{KEY}={DEFAULT}: the references are Korean; sacrebleu recommends {KEY}=ko-mecab")
    tokenizer, advice = _of_unspaced(writing, references)
    language = f"{writing.kind if writing.kind != 'unspaced' else writing.script}"
    return Choice(
        tokenizer,
        f"{KEY}={tokenizer}: chosen because {writing.share:.0%} of the references are {language}, "
        f"without spaces between words{advice}",
    )


def _of_unspaced(writing: Writing, references: Sequence[str]) -> tuple[str, str]:
    """Return the tokenizer for a text without spaces, and advice about another one."""
    if writing.kind == "Japanese":
        try:
            require_tokenizer("ja-mecab")
        except UserError:
            return CHARACTERS, f"; for sacrebleu's words, pip install 'nmt-memory-attention[{EXTRAS['ja-mecab']}]'"
        return "ja-mecab", ""
    if writing.kind == "Chinese":
        from nmt.text.writing import HAN, HAN_OF_ZH

        text = "".join(references)
        if len(HAN_OF_ZH.findall(text)) >= 0.9 * len(HAN.findall(text)):
            return "zh", ""
    return CHARACTERS, ""


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

    texts, reference_lines = text_list(hypotheses, "hypotheses"), text_list(references, "references")
    if len(texts) != len(reference_lines):
        raise UserError(
            f"{counted(len(texts), 'translation')}, {counted(len(reference_lines), 'reference')}:"
            " both must have the same number of lines"
        )
    if not texts:
        raise UserError("0 translations: nothing to score; give at least one line")
    tokenizer = choose_tokenizer(reference_lines, tokenizer).tokenizer
    bleu, chrf = bleu_metric(tokenizer, lowercase=lowercase), CHRF(lowercase=lowercase)
    bleu_score = bleu.corpus_score(texts, [reference_lines]).score
    chrf_score = chrf.corpus_score(texts, [reference_lines]).score
    signatures = {"bleu": str(bleu.get_signature()), "chrf": str(chrf.get_signature())}
    ter_score = None
    if ter:
        ter_score, signatures["ter"] = _ter(texts, reference_lines, tokenizer, lowercase=lowercase)
    return Scores(bleu_score, chrf_score, ter_score, signatures)


def bleu_metric(tokenizer: str, *, lowercase: bool = False) -> BLEU:
    """Return sacrebleu's BLEU. Its attribute ``tokenizer`` is a function from a line to tokens between spaces."""
    from sacrebleu.metrics.bleu import BLEU

    # force=True suppresses a warning about tokenised text (lines that end in " .") after each epoch.
    return BLEU(lowercase=lowercase, force=True, tokenize=tokenizer)


def _ter(texts: list[str], references: list[str], tokenizer: str, *, lowercase: bool) -> tuple[float, str]:
    """Return TER and its signature.

    TER counts words between spaces. Chinese is split by sacrebleu's own options for it. Those leave Japanese kana, Thai
    and others whole, so these are split into characters before.
    """
    from sacrebleu.metrics.ter import TER

    from nmt.text.writing import writing_of

    kind = "spaced" if tokenizer in BY_WORDS else writing_of(references).kind
    if kind == "Chinese" and tokenizer != CHARACTERS:
        return _score(TER(case_sensitive=not lowercase, normalized=True, asian_support=True), texts, references)
    metric = TER(case_sensitive=not lowercase)
    if kind not in ("Chinese", "Japanese", "unspaced"):
        return _score(metric, texts, references)
    score, signature = _score(metric, [" ".join(line) for line in texts], [" ".join(line) for line in references])
    return score, signature.replace("|tok:", f"|tok:{CHARACTERS}+")


def _score(metric: TER, texts: list[str], references: list[str]) -> tuple[float, str]:
    return metric.corpus_score(texts, [references]).score, str(metric.get_signature())
