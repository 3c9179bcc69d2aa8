"""Attentions are imported from nmt.attention by their name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import nmt.attention


def test_package_lists_all_attentions() -> None:
    names = {"NoAttention", "BahdanauAttention", "LuongAttention", "MemoryAttention", "CovarianceAttention"}
    assert names <= set(dir(nmt.attention))
    assert all(getattr(nmt.attention, name).__name__ == name for name in names)


def test_unknown_attention_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'LoungAttention'"):
        nmt.attention.LoungAttention  # noqa: B018


def test_attention_in_a_new_file_needs_no_edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "from nmt.attention.base import Attention\n\n\nclass NewcomerAttention(Attention): ...\n"
    (tmp_path / "newcomer.py").write_text(source)
    monkeypatch.setattr(nmt.attention, "__path__", [*nmt.attention.__path__, str(tmp_path)])
    nmt.attention._classes.cache_clear()
    try:
        assert nmt.attention.NewcomerAttention.__module__ == "nmt.attention.newcomer"
    finally:
        nmt.attention._classes.cache_clear()
        sys.modules.pop("nmt.attention.newcomer", None)


def test_package_import_does_not_import_torch() -> None:
    code = "import sys, nmt.attention; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
