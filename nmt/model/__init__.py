"""The encoder–decoder: plain PyTorch modules that use neither Hydra nor Lightning."""

from __future__ import annotations

from nmt.model.covariance_encoder import CovarianceGRUEncoder
from nmt.model.decoder import Bridge, GRUDecoder, LSTMDecoder, MinGRUDecoder, SSRUDecoder, State
from nmt.model.encoder import Final, GRUEncoder, LSTMEncoder
from nmt.model.seq2seq import Seq2Seq
from nmt.model.transformer import TransformerDecoder, TransformerEncoder

__all__ = [
    "Bridge",
    "CovarianceGRUEncoder",
    "Final",
    "GRUDecoder",
    "GRUEncoder",
    "LSTMDecoder",
    "LSTMEncoder",
    "MinGRUDecoder",
    "SSRUDecoder",
    "Seq2Seq",
    "State",
    "TransformerDecoder",
    "TransformerEncoder",
]
