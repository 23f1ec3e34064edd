from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.golden import Wording
from tfjob.errors import InvalidRequest
from tfjob.serve.images import IMAGES, LABELS, fit, read_mnist, read_png, resize
from tfjob.serve.savedmodel import TensorSpec

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(1)
GREY = RANDOM.integers(0, 256, (5, 7, 1), np.uint8)
COLOR = RANDOM.integers(0, 256, (5, 7, 3), np.uint8)
MNIST = Path(__file__).parents[3] / "examples" / "mnist" / "data"


def png(pixels: Array, color: int, filters: bytes = bytes(5), **changed: Any) -> bytes:
    """Return a PNG file whose rows use these filters, computed as the format describes them."""
    height, width, channels = pixels.shape
    rows = pixels.reshape(height, -1).astype(int)
    lines = b""
    for number, filter_ in enumerate(filters):
        row, above = rows[number], rows[number - 1] if number else np.zeros(width * channels, int)
        left, corner = (np.concatenate([np.zeros(channels, int), one[:-channels]]) for one in (row, above))
        guess = left + above - corner
        distances = np.abs(np.stack([guess - left, guess - above, guess - corner]))
        paeth = np.choose(np.argmin(distances, axis=0), [left, above, corner])
        predicted = [0 * row, left, above, (left + above) // 2, paeth][filter_ % 5]
        lines += bytes([filter_]) + ((row - predicted) % 256).astype(np.uint8).tobytes()
    header = struct.pack(">IIBBBBB", width, height, changed.get("depth", 8), color, 0, 0, changed.get("interlaced", 0))
    parts = [(b"IHDR", header), *changed.get("chunks", []), (b"IDAT", zlib.compress(lines)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


@pytest.mark.parametrize("filters", [bytes([one] * 5) for one in range(5)] + [bytes(range(5))])
@pytest.mark.parametrize(("pixels", "color"), [(GREY, 0), (COLOR, 2)], ids=["grey", "color"])
def test_a_png_has_the_same_pixels_with_every_filter(tmp_path: Path, pixels: Array, color: int, filters: bytes) -> None:
    file = tmp_path / "image.png"
    file.write_bytes(png(pixels, color, filters))
    np.testing.assert_array_equal(read_png(file), pixels[..., 0] if color == 0 else pixels)


def test_alpha_is_on_black_and_a_palette_gives_colors(tmp_path: Path) -> None:
    file = tmp_path / "image.png"
    alpha = np.array([[[200, 0], [200, 255], [200, 51]]], np.uint8)
    file.write_bytes(png(alpha, 4, bytes(1)))
    assert read_png(file).tolist() == [[0, 200, 40]]
    file.write_bytes(png(np.concatenate([COLOR, np.full((5, 7, 1), 255, np.uint8)], axis=-1), 6))
    np.testing.assert_array_equal(read_png(file), COLOR)
    palette = (b"PLTE", bytes([0, 0, 0, 10, 20, 30]))
    file.write_bytes(png(np.array([[[1], [0]]], np.uint8), 3, bytes(1), chunks=[palette]))
    assert read_png(file).tolist() == [[[10, 20, 30], [0, 0, 0]]]


def test_a_file_that_is_not_an_8_bit_png_is_an_error(tmp_path: Path, wording: Wording) -> None:
    good = png(GREY, 0)
    broken = [
        b"JFIF",
        png(GREY, 0, depth=16),
        png(GREY, 0, interlaced=1),
        png(GREY, 0, bytes([9] * 5)),
        good[:40],
        good[: len(good) // 2],
        good.replace(b"IDAT", b"tEXt"),
        good.replace(struct.pack(">II", 7, 5), struct.pack(">II", 70000, 70000)),
    ]
    messages = []
    for number, content in enumerate(broken):
        file = tmp_path / f"{number}.png"
        file.write_bytes(content)
        with pytest.raises(InvalidRequest, match=str(number)) as error:
            read_png(file)
        messages.append(str(error.value))
    wording(*messages)


def test_the_test_files_of_mnist_are_read_with_and_without_gz(tmp_path: Path) -> None:
    images, labels = read_mnist(MNIST)
    assert images.shape == (len(labels), 28, 28)
    for name in (IMAGES, LABELS):
        (tmp_path / name).write_bytes(gzip.decompress((MNIST / f"{name}.gz").read_bytes()))
    for ours, theirs in zip(read_mnist(tmp_path), (images, labels), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:100])


@pytest.mark.parametrize("damage", [Path.unlink, cut, lambda file: file.write_bytes(b"no image at all" * 9)])
def test_incomplete_mnist_files_are_an_error_that_names_the_file(tmp_path: Path, damage: Callable[[Path], Any]) -> None:
    for name in (IMAGES, LABELS):
        (tmp_path / f"{name}.gz").write_bytes((MNIST / f"{name}.gz").read_bytes())
    damage(tmp_path / f"{LABELS}.gz")
    with pytest.raises(InvalidRequest, match=LABELS):
        read_mnist(tmp_path)


@pytest.mark.parametrize(
    ("given", "dtype", "shape", "wanted"),
    [
        ((28, 28), "DT_UINT8", (None, 28, 28), (2, 28, 28)),
        ((28, 28), "DT_FLOAT", (None, 784), (2, 784)),
        ((28, 28), "DT_FLOAT", (1, 28, 28, 1), (2, 28, 28, 1)),
        ((28, 28), "DT_HALF", (None, 28, 28, 3), (2, 28, 28, 3)),
        ((28, 28, 3), "DT_UINT8", (None, 28, 28), (2, 28, 28)),
        ((56, 84), "DT_UINT8", (None, 28, 28), (2, 28, 28)),
        ((20, 20), "DT_INT64", (None, None, None, 1), (2, 20, 20, 1)),
    ],
)
def test_images_get_the_shape_and_type_of_the_input(
    given: tuple[int, ...], dtype: str, shape: tuple[int | None, ...], wanted: tuple[int, ...]
) -> None:
    fitted = fit(np.full((2, *given), 100, np.uint8), TensorSpec("x:0", dtype, shape))
    assert fitted.shape == wanted
    assert np.all(fitted == 100)


def test_pixels_are_scaled_only_if_requested() -> None:
    spec = TensorSpec("x:0", "DT_FLOAT", (None, 4))
    image = np.array([[[0, 51], [102, 255]]], np.uint8)
    assert fit(image, spec).tolist() == [[0, 51, 102, 255]]
    np.testing.assert_allclose(fit(image, spec, scale=1 / 255), [[0, 0.2, 0.4, 1]], rtol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("DT_STRING", (None,)), ("DT_FLOAT", (None, 3)), ("DT_FLOAT", None), ("DT_FLOAT", (None, 8, 8, 5))],
)
def test_an_input_that_does_not_take_images_is_an_error(
    dtype: str, shape: tuple[int | None, ...] | None, wording: Wording
) -> None:
    with pytest.raises(InvalidRequest) as error:
        fit(np.zeros((1, 28, 28), np.uint8), TensorSpec("x:0", dtype, shape))
    wording(error.value)


def test_resizing_averages_the_pixels_that_a_new_one_covers() -> None:
    image = np.array([[0, 10, 20, 30], [10, 20, 30, 40]], np.uint8)
    assert resize(image, 1, 2).tolist() == [[10, 30]]
    np.testing.assert_allclose(resize(image, 2, 3), [[2.5, 15, 27.5], [12.5, 25, 37.5]])
    assert resize(image[..., None], 4, 8).shape == (4, 8, 1)


@given(st.binary(max_size=40), st.integers(0, 200), st.integers(0, 40))
def test_a_damaged_png_is_read_or_is_an_error(
    tmp_path_factory: pytest.TempPathFactory, new: bytes, at: int, cut: int
) -> None:
    whole = png(COLOR, 2, bytes(range(5)))
    file = tmp_path_factory.getbasetemp() / "damaged.png"
    file.write_bytes(whole[:at] + new + whole[at + cut :])
    with suppress(InvalidRequest):
        assert read_png(file).dtype == np.uint8
