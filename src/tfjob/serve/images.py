"""Images for a model: PNG files, the MNIST test files, and their conversion to the type and shape of an input.

    fit(read_png(Path("4.png"))[None], signature.inputs["images"])

PNG is the only format of single images, read with zlib, so that clients need only numpy.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tfjob.errors import InvalidRequest
from tfjob.serve.savedmodel import TensorSpec
from tfjob.serve.tensors import NUMPY, STRING, Array, format_shape

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Values per pixel by color type: grey, RGB, palette, grey with alpha, RGB with alpha."""
PALETTE, WITH_ALPHA = 3, (4, 6)
MOST_PIXELS = 50_000_000
"""An image with more pixels is refused: a small file can claim a size that fills the memory."""
LUMA = np.array([0.299, 0.587, 0.114])
IMAGES, LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"
"""The test files of MNIST, which may end in .gz."""


def read_png(file: Path) -> Array:
    """Return the pixels as uint8, (height, width) for grey and (height, width, 3) for color; alpha is on black."""
    data = file.read_bytes()
    if not data.startswith(SIGNATURE):
        raise InvalidRequest(f"{file} is not a PNG file", "Convert the image to PNG.")
    try:
        return _pixels(dict_of_chunks(data))
    except (zlib.error, struct.error, ValueError, KeyError, IndexError) as error:
        raise InvalidRequest(f"cannot read {file}: {_reason(error)}", "Save it as an 8-bit PNG.") from None


def dict_of_chunks(data: bytes) -> dict[bytes, bytes]:
    """Return the chunks of a PNG file by type; the parts of the image are joined."""
    chunks: dict[bytes, bytes] = {}
    for kind, content in _chunks(data):
        chunks[kind] = chunks.get(kind, b"") + content
    return chunks


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(SIGNATURE)
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        yield kind, data[at + 8 : at + 8 + length]
        at += 12 + length


def _pixels(chunks: dict[bytes, bytes]) -> Array:
    width, height, depth, color, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    if depth != 8 or interlaced or color not in CHANNELS:
        raise ValueError(f"it has {depth} bits per value{' and is interlaced' if interlaced else ''}")
    if not 0 < width * height <= MOST_PIXELS:
        raise ValueError(f"it has {width} x {height} pixels")
    channels = CHANNELS[color]
    size = height * (1 + width * channels)
    unpacked = zlib.decompressobj().decompress(chunks[b"IDAT"], size)
    if len(unpacked) < size:
        raise ValueError("its end is missing")
    rows = np.frombuffer(unpacked, np.uint8, count=size).reshape(height, -1)
    image = _unfiltered(rows[:, 0], rows[:, 1:], channels).reshape(height, width, channels)
    if color == PALETTE:
        image = np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)[image[..., 0]]
    if color in WITH_ALPHA:
        alpha = image[..., -1:].astype(np.uint16)
        image = ((image[..., :-1] * alpha + 127) // 255).astype(np.uint8)
    return image[..., 0] if image.shape[-1] == 1 else image


def _unfiltered(filters: Array, rows: Array, channels: int) -> Array:
    """Undo the filter of each row: every byte is stored as the difference to a prediction from its neighbors."""
    result = np.zeros_like(rows)
    above = np.zeros(rows.shape[1], np.uint8)
    for number, (filter_, row) in enumerate(zip(filters.tolist(), rows, strict=True)):
        current = result[number]
        if filter_ in (0, 2):
            current[:] = row + above if filter_ else row
        else:
            _unfilter_row(filter_, row, above, current, channels)
        above = current
    return result


def _unfilter_row(filter_: int, row: Array, above: Array, current: Array, channels: int) -> None:
    """Undo a filter in which each byte depends on the one to its left."""
    before, over = bytes(row), bytes(above)
    done = bytearray(len(before))
    for at, value in enumerate(before):
        left = done[at - channels] if at >= channels else 0
        corner = over[at - channels] if at >= channels else 0
        if filter_ == 1:
            predicted = left
        elif filter_ == 3:
            predicted = (left + over[at]) // 2
        elif filter_ == 4:
            predicted = _paeth(left, over[at], corner)
        else:
            raise ValueError(f"it has a row with the unknown filter {filter_}")
        done[at] = (value + predicted) & 255
    current[:] = np.frombuffer(done, np.uint8)


def _paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    return min((left, above, corner), key=lambda one: abs(guess - one))  # the first of equals, as the format requires


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"it has no {error.args[0].decode(errors='replace')} chunk"
    return "it is damaged" if isinstance(error, struct.error | zlib.error) else str(error)


# MNIST.


def read_mnist(folder: Path) -> tuple[Array, Array]:
    """Return the test images (n, 28, 28) and labels (n,) of a folder, from the files with or without .gz."""
    images, labels = _idx(folder, IMAGES, 3), _idx(folder, LABELS, 1)
    if len(images) != len(labels):
        raise InvalidRequest(f"{folder} has {len(images)} test images, but {len(labels)} labels")
    return images, labels


def _idx(folder: Path, name: str, dimensions: int) -> Array:
    """Read an IDX file: two zeros, the type (8: uint8), the number of dimensions, their sizes, the values."""
    file = next((path for path in (folder / f"{name}.gz", folder / name) if path.is_file()), None)
    if file is None:
        raise InvalidRequest(f"{folder} has no {name}.gz", "Name the folder with the MNIST test files.")
    try:
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        magic, *shape = struct.unpack_from(f">I{dimensions}I", data)
        if magic != 0x800 + dimensions:
            raise ValueError(f"it begins with {magic:#x}")
        return np.frombuffer(data, np.uint8, count=math.prod(shape), offset=4 + 4 * dimensions).reshape(shape)
    except (OSError, EOFError, zlib.error, struct.error, ValueError) as error:
        raise InvalidRequest(f"{file} is not a complete MNIST file: {error}") from None


# The input of a model.


def fit(images: Array, spec: TensorSpec, scale: float = 1.0) -> Array:
    """Return images (n, height, width[, 3]) with the type and shape of an input: grey or color, resized, or flat.

    Values are multiplied by `scale`. Raises InvalidRequest if the input does not take images.
    """
    count, wanted = len(images), spec.shape
    if spec.dtype == STRING or wanted is None or len(wanted) not in (2, 3, 4):
        raise InvalidRequest(
            f"the model does not take images: its input is {spec.dtype} of shape {format_shape(wanted)}"
        )
    height, width, channels = _sizes(wanted, images.shape)
    grey = channels == 1
    pixels = images if images.ndim == 4 or grey else np.repeat(images[..., None], 3, axis=-1)
    if grey and images.ndim == 4:
        pixels = images @ LUMA
    if pixels.shape[1:3] != (height, width):
        pixels = np.stack([resize(one, height, width) for one in pixels])
    flat = len(wanted) == 2
    shape = (count, -1) if flat else (count, height, width, channels) if len(wanted) == 4 else (count, height, width)
    values = pixels.reshape(shape) * scale if scale != 1 else pixels.reshape(shape)
    dtype = NUMPY[spec.dtype]
    return np.asarray(np.rint(values) if dtype.kind in "iu" and values.dtype.kind == "f" else values, dtype)


def _sizes(wanted: tuple[int | None, ...], given: tuple[int, ...]) -> tuple[int, int, int]:
    """Return height, width and channels for an input (n, pixels), (n, height, width) or with channels."""
    if len(wanted) == 2:
        side = math.isqrt(wanted[1] or 0)
        if not wanted[1] or side * side != wanted[1]:
            raise InvalidRequest(f"the model does not take images: its input has the shape {format_shape(wanted)}")
        return side, side, 1
    channels = (wanted[3] or 1) if len(wanted) == 4 else 1
    if channels not in (1, 3):
        raise InvalidRequest(
            f"the model takes images with {channels} channels: its input has the shape {format_shape(wanted)}"
        )
    return wanted[1] or given[1], wanted[2] or given[2], channels


def resize(image: Array, height: int, width: int) -> Array:
    """Resize an image (height, width[, 3]) by averaging the pixels that each new pixel covers."""
    rows, columns = _cover(image.shape[0], height), _cover(image.shape[1], width)
    wide = np.tensordot(rows, image.astype(np.float64), axes=(1, 0))
    return np.moveaxis(np.tensordot(columns, wide, axes=(1, 1)), 0, 1)


def _cover(old: int, new: int) -> Array:
    """Return the share of each old pixel in each new one, as a matrix (new, old) whose rows sum to 1."""
    edges = np.arange(new + 1) * (old / new)
    starts = np.maximum(edges[:-1, None], np.arange(old))
    ends = np.minimum(edges[1:, None], np.arange(old) + 1)
    shares: Array = np.maximum(ends - starts, 0) * (new / old)
    return shares
