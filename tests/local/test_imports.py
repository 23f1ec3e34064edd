"""Which programs import TensorFlow, by their text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfjob.local.imports import MOST_FILES, import_tensorflow


@pytest.mark.parametrize(
    ("text", "imports"),
    [
        ("import tensorflow as tf\n", True),
        ("import os\nimport tensorflow\n", True),
        ("from tensorflow import keras\n", True),
        ("from tensorflow.keras import layers\n", True),
        ("import keras\n", True),
        ("import tf_keras as keras\n", True),
        ("import tensorflow_datasets as tfds\n", True),
        ("def main():\n    import tensorflow as tf\n", True),
        ("import tensorflow as tf\r\n", True),
        ("# import tensorflow\n", False),
        ("print('import tensorflow')\n", False),
        ("import json, os\n", False),
        ("", False),
        ("\udcff\udcfe", False),
    ],
)
def test_the_text_of_a_program_tells(tmp_path: Path, text: str, imports: bool) -> None:
    program = tmp_path / "train.py"
    program.write_bytes(text.encode(errors="surrogateescape"))
    assert import_tensorflow(program) is imports


@pytest.mark.parametrize("module", ["model.py", "model/__init__.py"])
def test_a_module_beside_the_program_tells_too(tmp_path: Path, module: str) -> None:
    (tmp_path / "train.py").write_text("import steps\n")
    (tmp_path / "steps.py").write_text("import train\nfrom model import build\n")
    assert not import_tensorflow(tmp_path / "train.py")
    (tmp_path / module).parent.mkdir(exist_ok=True)
    (tmp_path / module).write_text("import tensorflow as tf\n")
    assert import_tensorflow(tmp_path / "train.py")


def test_what_cannot_be_read_imports_nothing(tmp_path: Path) -> None:
    assert not import_tensorflow(tmp_path / "absent.py")
    assert not import_tensorflow(tmp_path)


def test_a_program_of_very_many_modules_is_not_read_to_its_end(tmp_path: Path) -> None:
    for number in range(2 * MOST_FILES):
        (tmp_path / f"m{number}.py").write_text(f"import m{number + 1}\n")
    (tmp_path / f"m{2 * MOST_FILES}.py").write_text("import tensorflow\n")
    assert not import_tensorflow(tmp_path / "m0.py")
