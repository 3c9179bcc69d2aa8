"""CPU fast paths: the same results as plain torch, up to rounding, computed faster or in less RAM.

- ``dropout``: dropout that draws a quarter of the random numbers
- ``additive``: additive attention scores, computed in place, in blocks, and through the sigmoid
- ``process``: memory settings of the C library, and zeros instead of numbers too small for the usual format
"""

import os

# By default oneDNN caches kernels and their scratch memory for 1,024 shapes. That is gigabytes where sentence lengths
# vary, and it makes nothing faster. oneDNN reads the limit when the first LSTM runs.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")
