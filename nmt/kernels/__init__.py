"""CPU fast paths: the same results as plain torch, computed faster. One switch turns all of them off.

- ``products``: products with weights, by oneDNN
- ``recurrence``: LSTM steps whose weight gradients are computed once, over all time steps
- ``dropout``: dropout that draws a quarter of the random numbers
- ``additive``: additive attention scores, computed in place and through the sigmoid
- ``output_loss``: cross-entropy of the output layer, computed chunk by chunk
- ``process``: memory settings of the C library, and zeros instead of numbers too small for the usual format
- ``operators``: the private torch operators behind these, each checked before its first use

``NMT_KERNELS=off`` in the environment turns them off for a process, ``with nmt.kernels.disabled():`` for a block. Every
function of this folder then uses public torch functions only. Turn them off to find out whether a fast path causes an
error or a difference. Without dropout, results differ only by rounding. Dropout draws different random numbers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from nmt.errors import UserError

# By default oneDNN caches kernels and their scratch memory for 1,024 shapes. That is gigabytes where sentence lengths
# vary, and it makes nothing faster. oneDNN reads the limit when the first LSTM runs. It changes no result, so the
# switch does not affect it.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")


def read_switch(value: str | None) -> bool:
    """Return whether this value of ``NMT_KERNELS`` turns the fast paths on. Raises UserError for an unknown value."""
    if value in (None, "", "on"):
        return True
    if value == "off":
        return False
    raise UserError(f"NMT_KERNELS={value}: must be on or off; correct or unset this environment variable")


_enabled = read_switch(os.environ.get("NMT_KERNELS"))


def enabled() -> bool:
    """Return whether the fast paths are on."""
    return _enabled


@contextmanager
def disabled() -> Iterator[None]:
    """Turn the fast paths off inside the ``with`` block, in all threads of this process."""
    global _enabled
    before, _enabled = _enabled, False
    try:
        yield
    finally:
        _enabled = before
