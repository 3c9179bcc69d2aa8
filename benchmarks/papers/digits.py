"""Images of handwritten digits: MNIST from its four files, or the small digits of scikit-learn, enlarged."""

from __future__ import annotations

import gzip
import math
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor

SIDE = 28  # pixels
TEST_IMAGES = 297  # of scikit-learn's 1,797
PARTS = ("train", "t10k")
MAGIC = b"\x00\x00\x08"  # bytes; the next byte is the number of dimensions


class Digits(NamedTuple):
    """Images (N, 28, 28) uint8 with labels (N,) int64, of the training and of the test set."""

    images: Tensor
    labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def load(folder: Path | None) -> Digits:
    """Return MNIST from its files in ``folder``, or the digits of scikit-learn. Exits with one line if it cannot."""
    if folder is None:
        return _small_digits()
    parts = []
    for part in PARTS:
        images = _read(folder / f"{part}-images-idx3-ubyte", dimensions=3)
        labels = _read(folder / f"{part}-labels-idx1-ubyte", dimensions=1)
        if len(images) != len(labels):
            sys.exit(f"{folder}: {len(images):,} images and {len(labels):,} labels of {part}; download its files again")
        parts += [images, labels.long()]
    return Digits(*parts)


def _small_digits() -> Digits:
    """Return scikit-learn's images of 8 × 8 pixels and 17 greys, enlarged to 28 × 28 pixels and 256 greys."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        sys.exit("scikit-learn: missing; pip install scikit-learn, or give --data, a folder with the files of MNIST")
    small = load_digits()
    order = torch.randperm(len(small.target), generator=torch.Generator().manual_seed(0))
    images = torch.from_numpy(small.images)[order][:, None] / 16
    large = torch.nn.functional.interpolate(images, size=(SIDE, SIDE), mode="bilinear")[:, 0]
    grey = (255 * large).round().to(torch.uint8)
    labels = torch.from_numpy(small.target).long()[order]
    count = len(labels) - TEST_IMAGES
    return Digits(grey[:count], labels[:count], grey[count:], labels[count:])


def _read(path: Path, *, dimensions: int) -> Tensor:
    """Return the numbers of a file in the IDX format, which may be compressed as ``path``.gz."""
    compressed = path.with_name(f"{path.name}.gz")
    try:
        data = gzip.decompress(compressed.read_bytes()) if compressed.is_file() else path.read_bytes()
    except (OSError, EOFError, gzip.BadGzipFile) as error:
        sys.exit(f"{path}: cannot be read ({error}); put the four files of MNIST, also as .gz, into the folder")
    start = 4 + 4 * dimensions
    shape = struct.unpack(f">{dimensions}I", data[4:start]) if len(data) >= start else ()
    size = torch.Size(shape).numel()
    if (
        data[:4] != MAGIC + bytes([dimensions])
        or len(data) != start + size
        or shape[1:] != (SIDE, SIDE)[: dimensions - 1]
    ):
        sys.exit(f"{path}: not {dimensions}-dimensional bytes in the IDX format; download the files of MNIST again")
    return torch.frombuffer(bytearray(data[start:]), dtype=torch.uint8).view(shape)


def draw_rows(rows: Sequence[tuple[str, Sequence[Sequence[int]]]], file: Path, *, greys: int, dpi: int) -> None:
    """Draw a row of square images, and below it rows of completions. A line marks where the hidden half begins."""
    columns = len(rows[0][1])
    figure = Figure(figsize=(columns, len(rows)), layout="constrained")
    for number, (axes, (name, images)) in enumerate(zip(figure.subplots(len(rows), columns), rows, strict=True)):
        for axis, image in zip(axes, images, strict=True):
            side = math.isqrt(len(image))
            axis.imshow(torch.tensor(image).view(side, side), cmap="gray_r", vmin=0, vmax=greys - 1)
            axis.set(xticks=[], yticks=[])
            if number:
                axis.axhline(side / 2 - 0.5, color="C3", linewidth=1)
        axes[0].set_ylabel(name, rotation=0, ha="right", va="center")
    figure.savefig(file, dpi=dpi)
