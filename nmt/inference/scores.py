"""Corpus scores (BLEU, chrF, TER) with sacrebleu's signatures, and warnings about texts whose scores mislead.

BLEU counts the tokens of a sacrebleu tokenizer. By default, the script of the references chooses it. A difference
between the two sides gives a warning only if BLEU rises by ``GAIN`` without it, so ordinary text gives none.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from nmt.data.words import SPACED
from nmt.errors import UserError, counted, print_message, reason
from nmt.settings.arguments import suggestion, text_list
from nmt.text.writing import HAN, HAN_OF_ZH, VOWELS, Writing, is_letter, writing_of

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.ter import TER

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
        if name in EXTRAS:
            extra = EXTRAS[name]
            fix = f"pip install 'nmt-memory-attention[{extra}]', or set {KEY}=null"
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

    texts = text_list(hypotheses, "hypotheses")
    reference_lines = text_list(references, "references")
    if len(texts) != len(reference_lines):
        raise UserError(
            f"{counted(len(texts), 'translation')}, {counted(len(reference_lines), 'reference')}:"
            " both must have the same number of lines"
        )
    if not texts:
        raise UserError("0 translations: nothing to score; give at least one line")
    tokenizer = choose_tokenizer(reference_lines, tokenizer).tokenizer
    bleu = bleu_metric(tokenizer, lowercase=lowercase)
    chrf = CHRF(lowercase=lowercase)
    bleu_score = bleu.corpus_score(texts, [reference_lines]).score
    chrf_score = chrf.corpus_score(texts, [reference_lines]).score
    signatures = {"bleu": str(bleu.get_signature()), "chrf": str(chrf.get_signature())}
    ter_score = None
    if ter:
        ter_score, signatures["ter"] = _ter(texts, reference_lines, tokenizer, lowercase=lowercase)
    return Scores(bleu_score, chrf_score, ter_score, signatures)


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


def _ter(texts: list[str], references: list[str], tokenizer: str, *, lowercase: bool) -> tuple[float, str]:
    """Return TER and its signature.

    TER counts words between spaces. Chinese is split by sacrebleu's own options for it. Those leave Japanese kana, Thai
    and others whole, so these are split into characters before.
    """
    from sacrebleu.metrics.ter import TER

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


GAIN = 1.0  # BLEU
SAMPLE = 500  # lines of scores that only find out which file this is
FEW = 20  # with fewer lines, shares say little
FROM_SOURCES = 0.3  # by which more words occur in the sources, if a model reads text of its target language
UNRELATED = 0.15  # share of words that occur in the references; another language stays below
SHIFTED = 20.0  # BLEU against the next or previous line from which the lines are shifted

# Letters that people write in several ways: yeh and kaf of Arabic and Persian, s and t of Romanian
LETTERS = str.maketrans("يىكşţŞŢ", "ییکșțȘȚ")
# The commonest characters with two forms
SIMPLIFIED = str.maketrans(
    "們這來個國說時為會學對過還後經動現樣開長問給見頭麼兩東車書幾話語電風飛馬魚鳥黃點無當從聽讀寫買賣愛關",
    "们这来个国说时为会学对过还后经动现样开长问给见头么两东车书几话语电风飞马鱼鸟黄点无当从听读写买卖爱关",
)
QUOTES = str.maketrans({**dict.fromkeys("‘’‚‛ʼ´`′׳『』", "'"), **dict.fromkeys("“”„‟«»″״「」", '"')})
WIDE = re.compile("[\u3000\uff00-\uffef]+")
DIGIT = re.compile(r"\d")
# 13a takes these marks, unlike those of Latin text, as parts of words
SPACED_MARK = re.compile(r"\s+(?=[।॥۔؟،؛።፣፤၊။։])")
TIGHT = re.compile(r"\w[.,](?:\s|$)")
INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f\u00ad\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")
APOSTROPHE = re.compile(r"\s*'\s*")
ONE_SIDED = {  # the texts differ in each of the searches; one without full stops has no spaces before them
    "a space before a full stop or comma, which TER counts; detokenize both": (SPACED.search, TIGHT.search),
    "a tab or |||; keep the column of the sentences, as with cut -f2": (re.compile(r"\t| \|\|\| ").search,),
    "quotation marks or brackets around them, as in CSV, JSON and XML; keep the sentences only": (
        re.compile(r'\s*(?:".*"|[\[{].*[\]}]|<(?!unk>).*>),?\s*').fullmatch,
    ),
}
IGNORE_CASE = "ignore it with lowercase=true, or restore it"


class TextDifference(NamedTuple):
    """How two texts can differ: ``remove`` makes lines equal that differ in nothing else.

    BLEU is computed again if the shares of lines that it changes differ by ``least`` between the texts.
    """

    name: str
    remove: Callable[[str], str]
    fix: str
    least: float = 0.05


def _same_width(line: str) -> str:
    return WIDE.sub(lambda match: unicodedata.normalize("NFKC", match[0]), line)


def _joined_words(line: str) -> str:
    if "'" not in line and "@" not in line and "&" not in line and " n't" not in line:
        return line
    return APOSTROPHE.sub("'", html.unescape(line).replace(" @-@ ", "-").replace(" n't", "n't"))


def _joined_pieces(line: str) -> str:
    return line.replace(" ", "").replace("▁", " ").strip() if "▁" in line else line.replace("@@ ", "")


DIFFERENCES = (
    TextDifference(
        "Unicode normal form (NFC or NFD)",
        lambda line: unicodedata.normalize("NFC", line),
        "convert both to NFC, as with uconv -x nfc",
    ),
    TextDifference("quotation marks (curly or straight)", lambda line: line.translate(QUOTES), "use the same marks"),
    TextDifference(
        "width of characters (full or half)", _same_width, "convert both, as with uconv -x fullwidth-halfwidth"
    ),
    TextDifference(
        "digits (such as 3, ٣ or ३)",
        lambda line: line if line.isascii() else DIGIT.sub(lambda match: str(unicodedata.decimal(match[0])), line),
        "write both with the same digits",
    ),
    TextDifference(
        "letters (ی and ک, or ي and ك; ș and ț, or ş and ţ)",
        lambda line: line.translate(LETTERS),
        "use the same letters",
    ),
    TextDifference(
        "vowel marks of Hebrew or Arabic (and U+0640)", lambda line: VOWELS.sub("", line), "remove them from both"
    ),
    TextDifference(
        "Chinese characters (simplified or traditional)",
        lambda line: line.translate(SIMPLIFIED),
        "convert both, as with opencc -c t2s.json",
    ),
    TextDifference(
        "spaces before full stops and commas (such as । or ،)",
        lambda line: SPACED_MARK.sub("", line),
        "detokenize both",
    ),
    TextDifference("invisible characters", lambda line: INVISIBLE.sub("", line), "remove them from both"),
    TextDifference("subword pieces (@@ or ▁)", _joined_pieces, "join the pieces to words"),
    TextDifference("word tokenization (such as don 't or @-@)", _joined_words, "detokenize both"),
    TextDifference("case", str.lower, IGNORE_CASE, 0.5),
    TextDifference("case", lambda line: line.lower() if line.isupper() else line, IGNORE_CASE, 0.5),
)


@dataclass(frozen=True, kw_only=True)
class _Texts:
    """Translations, what they are compared with (no sources if these are unknown), and how BLEU compares them."""

    hypotheses: Sequence[str]
    references: Sequence[str]
    sources: Sequence[str] | None
    tokenizer: str
    metric: BLEU

    def bleu(self, texts: Sequence[str], references: Sequence[str]) -> float:
        return float(self.metric.corpus_score(list(texts), [list(references)]).score)

    def tokens(self, line: str) -> list[str]:
        return str(self.metric.tokenizer(line)).split()


def print_hints(
    choice: Choice,
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    sources: Sequence[str] | None = None,
    lowercase: bool = False,
    finished: bool = True,
) -> None:
    """Print the reason for the tokenizer, and a warning for each unusual property of the texts.

    ``finished`` is false for a model in training, whose translations may be anything.
    """
    if choice.reason is not None:
        print_message(choice.reason)
    metric = bleu_metric(choice.tokenizer, lowercase=lowercase)
    texts = _Texts(
        hypotheses=hypotheses, references=references, sources=sources, tokenizer=choice.tokenizer, metric=metric
    )
    different = [*_differences(texts, lowercase=lowercase)]
    hints = [*_unusual_lines(texts), *_mixed_writing(texts), *different]
    if finished and not different:
        hints += _wrong_files(texts)
    for hint in hints:
        print_message(f"warning: {hint}")


def wrong_files(hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str]) -> Iterator[str]:
    """Yield hints that texts do not belong together: shifted lines, exchanged sides, another language."""
    tokenizer = choose_tokenizer(references).tokenizer
    metric = bleu_metric(tokenizer, lowercase=True)
    return _wrong_files(
        _Texts(hypotheses=hypotheses, references=references, sources=sources, tokenizer=tokenizer, metric=metric)
    )


def _unusual_lines(texts: _Texts) -> Iterator[str]:
    """Yield hints about unusual lines, such as blank ones."""
    hypotheses, references = texts.hypotheses, texts.references
    count = len(references)
    blank = sum(not line.strip() for line in references)
    expected = references if texts.sources is None else texts.sources
    empty = sum(not line.strip() for line in hypotheses)
    empty -= sum(not line.strip() and not other.strip() for line, other in zip(hypotheses, expected, strict=True))
    unknown = sum("<unk>" in line or "⁇" in line for line in references)
    for what, searches in ONE_SIDED.items():
        lines = [[sum(map(bool, map(search, side))) for side in (hypotheses, references)] for search in searches]
        if all(abs(first - second) > 0.5 * count for first, second in lines):
            yield f"{counted(lines[0][0], 'translation')} and {counted(lines[0][1], 'reference')} have {what}"
    if blank:
        yield f"{blank:,} of {counted(count, 'reference')} {_are(blank)} blank; remove these lines from all files"
    if empty > 0.1 * count:
        yield f"{empty:,} of {counted(count, 'translation')} {_are(empty)} blank; check the file or the model"
    if unknown:
        yield f"{unknown:,} of {counted(count, 'reference')} {_are(unknown)} cut by <unk>; use the original references"
    if empty < count and not any(len(texts.tokens(line.rstrip())) > 3 for line in hypotheses):
        yield "no translation has four tokens, so BLEU, which needs runs of four, is 0; read chrF instead"
    elif count == 1:
        yield "1 sentence: BLEU is meant for a test set; give more sentences, or read chrF"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _mixed_writing(texts: _Texts) -> Iterator[str]:
    """Yield a hint if some references have no spaces between words, so that a tokenizer leaves each as one word."""
    if texts.tokenizer not in BY_WORDS:
        return
    references = texts.references
    kinds = [writing_of([line]).kind for line in references if not line.isascii()]
    unspaced = sum(kind in ("Chinese", "Japanese", "unspaced") for kind in kinds)
    if 0.1 * len(references) <= unspaced < 0.5 * len(references) and unspaced > 2:
        yield (
            f"{unspaced:,} of {counted(len(references), 'reference')} have no spaces between words, and "
            f"{KEY}={texts.tokenizer} takes each as one word; score them apart, or use {KEY}=zh or char"
        )


def _differences(texts: _Texts, *, lowercase: bool) -> Iterator[str]:
    """Yield a hint for each difference that lowers BLEU; ``lowercase`` scores ignore case."""
    sides = (texts.hypotheses, texts.references)
    before = None
    for name, remove, fix, least in DIFFERENCES:
        if lowercase and name == "case":
            continue
        removed = [[remove(line) for line in side] for side in sides]
        changed = [sum(map(str.__ne__, *versions)) for versions in zip(removed, sides, strict=True)]
        if abs(changed[0] - changed[1]) < least * len(texts.references):
            continue
        before = texts.bleu(*sides) if before is None else before
        after = texts.bleu(*removed)
        if after >= before + GAIN:
            yield (
                f"BLEU {before:.1f} would be {after:.1f} if both texts had the same {name}, which "
                f"changes {counted(changed[0], 'translation')} and {counted(changed[1], 'reference')}; {fix}"
            )


def _shifted(texts: _Texts) -> Iterator[str]:
    """Yield a hint if translations belong to neighbouring lines, from the start or the middle of the file on."""
    half = min(SAMPLE, len(texts.references) // 2)
    for which, lines in (("", slice(SAMPLE)), (f"last {half:,} ", slice(-half, None))):
        hypotheses = texts.hypotheses[lines]
        references = texts.references[lines]
        score = texts.bleu(hypotheses, references)
        if score >= SHIFTED / 3:
            continue
        for where, pair in (
            ("next", (hypotheses[:-1], references[1:])),
            ("previous", (hypotheses[1:], references[:-1])),
        ):
            if (shifted := texts.bleu(*pair)) > SHIFTED:
                yield (
                    f"the {which}translations fit the {where} reference (BLEU {shifted:.1f}) better than their own "
                    f"(BLEU {score:.1f}); look for a missing or additional line before them in a file"
                )
                return


def _wrong_files(texts: _Texts) -> Iterator[str]:
    references, sources = texts.references, texts.sources
    if len(references) < FEW:
        return
    if shifted := [*_shifted(texts)]:
        yield from shifted
        return
    sample = texts.hypotheses[:SAMPLE]
    score = texts.bleu(sample, references[:SAMPLE])
    if score > 50:
        return
    if sources is not None:
        copied = sum(map(str.__eq__, sources, references))
        if copied > 0.5 * len(references):
            yield f"{copied:,} of {counted(len(references), 'reference')} equal their source; is tgt= the right file?"
        elif (like := texts.bleu(sample, sources[:SAMPLE])) > max(20.0, 2 * score):
            yield (
                f"the translations resemble the sources (BLEU {like:.1f}) more than the references (BLEU {score:.1f}): "
                "the model copies, or src= and tgt= are exchanged"
            )
            return
    least = 4 if texts.tokenizer in BY_WORDS else 1  # letters: languages share short words
    words = [word for line in sample for word in texts.tokens(line.lower()) if len(word) >= least]
    words = [word for word in words if all(map(is_letter, word))]
    if len(words) <= 5 * FEW:
        return
    known = [{word for line in side for word in texts.tokens(line.lower())} for side in (references, sources or ())]
    shared, copied_share = (sum(word in side for word in words) / len(words) for side in known)
    if shared < UNRELATED or copied_share > shared + FROM_SOURCES:
        also = "" if sources is None else f", and {copied_share:.0%} in the sources"
        yield (
            f"only {shared:.0%} of the words of the translations occur in the references{also}; "
            "are they of the same language and text?"
        )
