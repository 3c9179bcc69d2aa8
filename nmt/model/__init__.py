"""The encoder–decoder: plain PyTorch modules that know neither Hydra nor Lightning."""

from __future__ import annotations

import os

from nmt.model.bridge import Bridge
from nmt.model.decoder import LSTMDecoder, State
from nmt.model.encoder import Final, LSTMEncoder
from nmt.model.seq2seq import Seq2Seq

__all__ = ["Bridge", "Final", "LSTMDecoder", "LSTMEncoder", "Seq2Seq", "State"]

# On a CPU, oneDNN keeps what it built for each of the last 1,024 shapes that an LSTM met, scratch memory included:
# gigabytes, where lengths vary, and no gain in speed. It reads the number once, when the first LSTM runs.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")
