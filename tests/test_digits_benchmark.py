"""The digits of the benchmarks: MNIST's files are read exactly, and a damaged one is reported in one line."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from benchmarks.papers.digits import load

pytestmark = pytest.mark.thorough
IMAGES = np.arange(3 * 28 * 28, dtype=np.uint32).astype(np.uint8).reshape(3, 28, 28)
LABELS = np.array([7, 0, 9], dtype=np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part, number in (("train", 3), ("t10k", 2)):
        images, labels = IMAGES[:number], LABELS[:number]
        header = b"\x00\x00\x08\x03" + struct.pack(">3I", *images.shape)
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(header + images.tobytes())
        data = b"\x00\x00\x08\x01" + struct.pack(">I", number) + labels.tobytes()
        (tmp_path / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(data))
    return tmp_path


def test_files_of_mnist_are_read_exactly(folder: Path) -> None:
    data = load(folder)
    assert np.array_equal(data.images.numpy(), IMAGES) and data.labels.tolist() == [7, 0, 9]
    assert np.array_equal(data.test_images.numpy(), IMAGES[:2]) and data.test_labels.tolist() == [7, 0]


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("train-images-idx3-ubyte", lambda data: data[:-1], "not 3-dimensional bytes"),
        ("train-labels-idx1-ubyte.gz", lambda data: data[:-9], "cannot be read"),
        ("train-labels-idx1-ubyte.gz", lambda data: gzip.compress(gzip.decompress(data)[:7] + b"\x01\x00"), "1 labels"),
    ],
)
def test_damaged_file_is_reported(folder: Path, name: str, damage: object, message: str) -> None:
    file = folder / name
    file.write_bytes(damage(file.read_bytes()))  # type: ignore[operator]
    with pytest.raises(SystemExit, match=message):
        load(folder)
