"""The encoder–decoder: plain PyTorch modules that use neither Hydra nor Lightning."""

from __future__ import annotations

from nmt.model.decoder import Bridge, LSTMDecoder, State
from nmt.model.encoder import Final, LSTMEncoder
from nmt.model.seq2seq import Seq2Seq
from nmt.model.transformer_decoder import TransformerDecoder
from nmt.model.transformer_encoder import TransformerEncoder

__all__ = [
    "Bridge",
    "Final",
    "LSTMDecoder",
    "LSTMEncoder",
    "Seq2Seq",
    "State",
    "TransformerDecoder",
    "TransformerEncoder",
]
