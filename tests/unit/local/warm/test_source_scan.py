"""Which programs import TensorFlow, and how much they let it log, by their text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfjob.local.warm.policy import refuse_setting
from tfjob.local.warm.source_scan import MOST_FILES, read_program

REPOSITORY = Path(__file__).parents[4]


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
        ("import os, tensorflow as tf\n", True),
        ("import os; import tensorflow as tf\n", True),
        ("import os as keras\n", False),
        ("from os import keras\n", False),
        ("from . import keras\n", False),
        ("# import tensorflow\n", False),
        ("print('import tensorflow')\n", False),
        ("import json, os\n", False),
        ("import os, \\\n    json\nfrom . import x\n", False),
        ("", False),
        ("\udcff\udcfe", False),
    ],
)
def test_the_text_of_a_program_tells(tmp_path: Path, text: str, imports: bool) -> None:
    program = tmp_path / "train.py"
    program.write_bytes(text.encode(errors="surrogateescape"))
    assert read_program(program).imports_tensorflow is imports


@pytest.mark.parametrize("module", ["model.py", "model/__init__.py"])
def test_a_module_beside_the_program_tells_too(tmp_path: Path, module: str) -> None:
    (tmp_path / "train.py").write_text("import steps\n")
    (tmp_path / "steps.py").write_text("import train\nfrom model import build\n")
    assert not read_program(tmp_path / "train.py").imports_tensorflow
    (tmp_path / module).parent.mkdir(exist_ok=True)
    (tmp_path / module).write_text("import tensorflow as tf\n")
    assert read_program(tmp_path / "train.py").imports_tensorflow


def test_the_modules_of_a_program_are_read_in_the_same_order_each_time(tmp_path: Path) -> None:
    """The first variable that counts is named as the reason."""
    names = [f"step_{letter}" for letter in "abcdefghij"]
    (tmp_path / "train.py").write_text(f"import {', '.join(names)}\n")
    for name in names:
        (tmp_path / f"{name}.py").write_text(f"os.environ['{name}'] = '1'\n")
    assert read_program(tmp_path / "train.py").variables({}) == names


def test_a_file_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    """A replica that waits for its fork server is looked at many times a second."""
    program = tmp_path / "train.py"
    program.write_text("import tensorflow\n")
    assert read_program(program).imports_tensorflow
    was = program.stat()
    program.write_text("import tensorfish\n")
    os.utime(program, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert read_program(program).imports_tensorflow
    os.utime(program, ns=(was.st_atime_ns, was.st_mtime_ns + 1))
    assert not read_program(program).imports_tensorflow


@pytest.mark.parametrize(
    "line", ["import pkg.model", "import os, pkg.model", "from pkg import os, model", "from . import (\n    model,\n)"]
)
def test_a_module_of_a_package_is_read_with_its_packages(tmp_path: Path, line: str) -> None:
    """`python -m pkg.train` looks for modules in the working folder, not in the program's."""
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "train.py").write_text(f"{line}\n")
    (package / "model.py").touch()
    assert not read_program(package / "train.py", tmp_path).imports_tensorflow
    (package / "model.py").write_text("import tensorflow as tf\n")
    assert read_program(package / "train.py", tmp_path).imports_tensorflow
    (package / "model.py").touch()
    (package / "__init__.py").write_text("import tensorflow as tf\n")
    assert read_program(package / "train.py", tmp_path).imports_tensorflow


@pytest.mark.parametrize(
    ("line", "env", "names"),
    [
        ("os.environ['TF_A'] = '1'", {}, ["TF_A"]),
        ('environ["TF_A"]=value', {"TF_A": "1"}, ["TF_A"]),
        ("os.putenv('TF_A', '1')", {}, ["TF_A"]),
        ("os.environ.setdefault('TF_A', '1')", {}, ["TF_A"]),
        ("os.environ.setdefault('TF_A', '1')", {"TF_A": "0"}, []),
        ("os.environ.pop('TF_A', None)", {}, []),
        ("os.environ.pop('TF_A')", {"TF_A": "0"}, ["TF_A"]),
        ("del os.environ['TF_A']", {"TF_A": "0"}, ["TF_A"]),
        ("os.environ.update(\n    {'TF_A': '1', 'B': '2'}\n)", {}, ["TF_A", "B"]),
        ("os.environ.update(TF_A='1')", {}, ["TF_A"]),
        ("if True:\n    os.environ['TF_A'] = '1'", {}, ["TF_A"]),
        ("# os.environ['TF_A'] = '1'", {}, []),
        ("print(os.environ['TF_A'], os.environ['TF_A'] == '1')", {}, []),
        ("import settings", {}, ["TF_BESIDE"]),
    ],
)
def test_the_variables_that_a_program_sets_are_seen(
    tmp_path: Path, line: str, env: dict[str, str], names: list[str]
) -> None:
    (tmp_path / "settings.py").write_text("import os\nos.environ['TF_BESIDE'] = '1'\n")
    (tmp_path / "train.py").write_text(f"import os\n{line}\nimport tensorflow as tf\n")
    assert read_program(tmp_path / "train.py").variables(env) == names


SHIPPED = [*REPOSITORY.glob("examples/*/train.py"), *REPOSITORY.glob("src/tfjob/templates/*/train.py")]


@pytest.mark.parametrize("program", SHIPPED, ids=[str(one.relative_to(REPOSITORY)) for one in SHIPPED])
def test_the_examples_and_templates_have_no_line_that_makes_them_start_cold(program: Path) -> None:
    text = read_program(program)
    assert text.imports_tensorflow
    assert refuse_setting(text.variables({})) is None


def test_what_cannot_be_read_imports_nothing(tmp_path: Path) -> None:
    assert not read_program(tmp_path / "absent.py").imports_tensorflow
    assert not read_program(tmp_path).imports_tensorflow


def test_a_program_of_very_many_modules_is_not_read_to_its_end(tmp_path: Path) -> None:
    for number in range(2 * MOST_FILES):
        (tmp_path / f"m{number}.py").write_text(f"import m{number + 1}\n")
    (tmp_path / f"m{2 * MOST_FILES}.py").write_text("import tensorflow\n")
    assert not read_program(tmp_path / "m0.py").imports_tensorflow


@pytest.mark.parametrize(
    ("line", "env", "variables"),
    [
        ('os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"', {}, {"TF_CPP_MIN_LOG_LEVEL": "2"}),
        ("os.environ['TF_CPP_MIN_LOG_LEVEL']='3'", {"TF_CPP_MIN_LOG_LEVEL": "0"}, {"TF_CPP_MIN_LOG_LEVEL": "3"}),
        ('environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")', {}, {"TF_CPP_MIN_LOG_LEVEL": "2"}),
        ('environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")', {"TF_CPP_MIN_LOG_LEVEL": "0"}, {}),
        ('os.environ["TF_CPP_MAX_VLOG_LEVEL"] = "1"', {}, {"TF_CPP_MAX_VLOG_LEVEL": "1"}),
        ('os.environ["TF_CPP_MIN_LOG_LEVEL"] = level', {}, {}),
        ('os.environ["TF_USE_LEGACY_KERAS"] = "1"', {}, {}),
    ],
)
def test_a_program_that_says_how_much_is_logged_is_believed(
    tmp_path: Path, line: str, env: dict[str, str], variables: dict[str, str]
) -> None:
    """Only of that: what changes a result may stand below a condition."""
    (tmp_path / "train.py").write_text(f"import os\n{line}\nimport tensorflow as tf\n")
    assert read_program(tmp_path / "train.py").log_variables(env) == variables


def test_names_that_end_on_the_next_line_are_no_fault_in_the_root_folder(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text("import os, \\\n    json\nfrom . import x\n")
    assert not read_program(program, Path("/")).imports_tensorflow
