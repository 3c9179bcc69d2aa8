"""SentencePiece models of many kinds, for tests of text that tokenizers change."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import sentencepiece

from nmt.text.tokenizer import Tokenizer

LINES = [
    "a man in a blue shirt is standing on a ladder .",
    "two dogs are running through New York .",
    "ein Mann läuft über die Straße , während es regnet .",
    "die Kinder spielen im Garten ½ … ﬁne",
] * 5
RULES = {"½": "1 / 2", "¼": "", "ab": "X", "x": "y z"}  # more words, none, fewer letters
KINDS: dict[str, dict[str, object]] = {
    "ours": {"byte_fallback": True, "normalization_rule_name": "identity"},
    "ours-nfkc": {"byte_fallback": True, "normalization_rule_name": "nfkc"},
    "ours-unigram": {"byte_fallback": True, "normalization_rule_name": "nfkc", "model_type": "unigram"},
    "spm-default": {"model_type": "unigram", "vocab_size": 60},
    "bpe-nmt_nfkc": {"vocab_size": 60},
    "case-folded": {"normalization_rule_name": "nmt_nfkc_cf", "byte_fallback": True},
    "nfkc_cf": {"normalization_rule_name": "nfkc_cf", "vocab_size": 60},
    "characters": {"model_type": "char", "vocab_size": 60},
    "words": {"model_type": "word", "vocab_size": 20},
    "no-prefix": {"add_dummy_prefix": False, "byte_fallback": True},
    "keep-spaces": {"remove_extra_whitespaces": False, "byte_fallback": True},
    "keep-spaces-no-prefix": {"remove_extra_whitespaces": False, "add_dummy_prefix": False, "vocab_size": 60},
    "suffix": {"treat_whitespace_as_suffix": True, "vocab_size": 70},
    "suffix-bytes": {"treat_whitespace_as_suffix": True, "byte_fallback": True},
    "over-spaces": {"split_by_whitespace": False, "byte_fallback": True, "vocab_size": 400},
    "over-spaces-unigram": {"split_by_whitespace": False, "model_type": "unigram", "vocab_size": 150},
    "symbols": {"user_defined_symbols": ["<2de>", "...", "½"], "byte_fallback": True},
    "control": {"control_symbols": ["<2de>"], "byte_fallback": True},
    "rules": {"byte_fallback": True},
    "no-bos": {"bos_id": -1, "eos_id": -1, "pad_id": 5, "unk_id": 7, "byte_fallback": True},
}


def train_sentencepiece(lines: list[str], **options: object) -> Tokenizer:
    """Return a tokenizer that SentencePiece itself trained on these lines: BPE by default."""
    model, options = io.BytesIO(), {"model_type": "bpe", **options}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, minloglevel=2, hard_vocab_limit=False, **options
    )
    return Tokenizer(model.getvalue())


@cache
def tokenizer_of(kind: str) -> Tokenizer:
    options = {"vocab_size": 330, **KINDS[kind]}
    with TemporaryDirectory() as folder:
        if kind == "rules":
            rules = Path(folder, "rules.tsv")
            codes = [[" ".join(f"{ord(letter):X}" for letter in side) for side in rule] for rule in RULES.items()]
            rules.write_text("".join(f"{source}\t{target}\n" for source, target in codes))
            options["normalization_rule_tsv"] = str(rules)
        return train_sentencepiece(LINES, **options)
