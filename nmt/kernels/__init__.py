"""CPU fast paths: the same numbers as plain torch, computed faster."""

from __future__ import annotations

import os

# oneDNN otherwise caches kernels, scratch memory included, for the last 1,024 shapes that an LSTM was called with.
# That is gigabytes where lengths vary, without any gain in speed. oneDNN reads the limit when the first LSTM runs.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")
