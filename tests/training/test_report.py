"""What a finished run leaves behind, whatever the test set and the tokenizer do to each other."""

from __future__ import annotations

import io
from pathlib import Path

import sentencepiece
import torch

from nmt.inference.folder import TrainedModel
from nmt.inference.translator import Translator
from nmt.model.build import build_model
from nmt.text.corpus import Corpus, write_corpus
from nmt.text.pair import Pair
from nmt.text.tokenizer import Tokenizer
from nmt.training.report import test_report as report_of_test_set


def test_a_tokenizer_that_counts_words_differently_is_drawn(tmp_path: Path) -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a dog sees a cat", "ein Hund sieht eine Katze"] * 9),
        model_writer=model,
        vocab_size=40,
        hard_vocab_limit=False,
        minloglevel=2,
    )  # with SentencePiece's own normalisation: a zero-width space is a space, a control character nothing
    tokenizer = Tokenizer.from_bytes(model.getvalue())
    pairs = [Pair("a\u200bdog sees", "ein\u200bHund sieht"), Pair("a \x01 cat", "eine \u200e Katze")]
    assert [tokenizer.words(tokenizer.encode(pair.target))[-1] + 1 for pair in pairs] == [3, 2]
    assert [len(pair.target.split()) for pair in pairs] == [2, 3]
    write_corpus(tmp_path / "test.arrow", pairs, tokenizer, tokenizer, max_length=None, max_ratio=None)
    config = {
        "data": {"lowercase": False},
        "embeddings": {"size": 8, "shared": True},
        "encoder": {"_target_": "nmt.model.LSTMEncoder", "hidden_size": 8, "dropout": 0.0, "bidirectional": True},
        "attention": {"_target_": "nmt.attention.BahdanauAttention", "attention_size": 8},
        "decoder": {"_target_": "nmt.model.LSTMDecoder", "hidden_size": 8, "dropout": 0.0},
        "search": {"beam_size": 1, "max_length": 4},
    }
    torch.manual_seed(1)
    network = build_model(config, source_vocabulary=len(tokenizer), target_vocabulary=len(tokenizer), longest_source=20)
    translator = Translator(TrainedModel(network, tokenizer, tokenizer, config, 20))
    report_of_test_set(config, translator, Corpus.open(tmp_path / "test.arrow"), tmp_path)
    page = (tmp_path / "alignments.html").read_text(encoding="utf-8")
    assert page.count("<section") == 2 and page.count("<td") == 2 * 2 + 3 * 3
