"""Write src/tfjob/serve/protos/messages.binpb from the .proto files next to it: `.venv/bin/python tools/protos.py`."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc  # type: ignore[import-untyped]

FOLDER = Path(__file__).parent.parent / "src/tfjob/serve/protos"


def compile_to(target: Path) -> None:
    """Compile all files, with the well-known types that they import, to one descriptor set."""
    arguments = [
        "protoc",
        f"--proto_path={FOLDER}",
        f"--proto_path={files('grpc_tools') / '_proto'}",
        "--include_imports",
        f"--descriptor_set_out={target}",
        *sorted(path.name for path in FOLDER.glob("*.proto")),
    ]
    if protoc.main(arguments) != 0:
        sys.exit("protoc failed")


if __name__ == "__main__":
    compile_to(FOLDER / "messages.binpb")
