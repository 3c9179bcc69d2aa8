"""Adds this folder to ``sys.path`` so that its tests can import ``small_models``: the tests are not a package."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
