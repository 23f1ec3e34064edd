"""The program of a request: its files, and what its interpreter lacks."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from support.golden import Wording
from tfjob.api.defaults import with_defaults
from tfjob.api.problems import Problem, errors
from tfjob.api.types import ReplicaSpec, TFJob, TFJobSpec
from tfjob.launch.program import Interpreter, problems, syntax_problems
from tfjob.launch.request import Request, ScriptRequest, has_valid_syntax

OURS = Interpreter(Path(sys.executable), dict(os.environ))
ABSENT = "no_such_module"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(**files: str) -> None:
    """Write modules by name; `__` in a name begins a module of a package."""
    for name, text in files.items():
        file = Path(name.replace("__", "/")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def check(file: str = "train.py", interpreter: Interpreter | None = OURS, **script: Any) -> list[Problem]:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "any"}]}}
    job = with_defaults(TFJob(spec=TFJobSpec(tf_replica_specs={"Worker": ReplicaSpec(template=template)})))
    return problems(Request(file, script=ScriptRequest(**script)), job, interpreter)


def places(found: list[Problem]) -> list[tuple[str, int, bool]]:
    return [(one.source, one.line, not one.warning) for one in found]


MISSING = {
    "always imported": (f"import os\nimport {ABSENT}.part\n", [(2, True)]),
    "from": (f"from {ABSENT} import part\n", [(1, True)]),
    "in a function": (f"def f():\n    import {ABSENT}\n", [(2, False)]),
    "the line that runs always": (f"def f():\n    import {ABSENT}\nimport {ABSENT}\n", [(3, True)]),
    "with another search path": (f"import sys\nsys.path.append('lib')\nimport {ABSENT}\n", [(3, False)]),
    "optional": (f"try:\n    import {ABSENT}\nexcept ImportError:\n    pass\n", []),
    "for type checkers": (f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import {ABSENT}\n", []),
}


@pytest.mark.parametrize("case", MISSING)
def test_an_import_that_the_interpreter_lacks_is_found(case: str) -> None:
    text, expected = MISSING[case]
    write(train=text)
    assert places(check()) == [("train.py", line, is_error) for line, is_error in expected]


def test_each_missing_module_is_reported_once_with_its_package(
    wording: Wording, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(train="import sklearn\nimport sklearn.linear_model\nimport absent\n")
    asked = []

    def ask(_: Interpreter, folder: Path, modules: list[str], files: list[str]) -> dict[str, Any]:
        asked.append(modules)
        return {"missing": modules, "syntax": {}, "keras": ""}

    monkeypatch.setattr(Interpreter, "ask", ask)
    found = check(interpreter=Interpreter(Path("/venv/bin/python"), {}))
    assert asked == [["absent", "sklearn"]]
    assert len(found) == 2
    assert "scikit-learn" in found[0].hint
    wording(*found)


def test_modules_of_the_folder_of_a_script_are_found_from_any_folder() -> None:
    write(src__train="import model\nfrom parts import layers\n", src__model="import os\n", src__parts__layers="")
    assert check("src/train.py") == []
    write(src__model=f"import os\nimport {ABSENT}\n")
    assert places(check("src/train.py")) == [("src/model.py", 2, True)]


def test_a_module_imports_from_the_current_folder() -> None:
    write(pkg__train="import pkg.model\nfrom . import data\nfrom .parts import one\n", pkg__model="", pkg__data="")
    write(pkg__parts="import other\n", other="")
    Path("pkg/__init__.py").write_text(f"import {ABSENT}\n")
    assert places(check("", module="pkg.train")) == [("pkg/__init__.py", 1, True)]
    assert places(check("", arguments=["python", "-m", "pkg.train"])) == [("pkg/__init__.py", 1, True)]


def test_nothing_is_imported_or_run() -> None:
    write(train="import model\nopen('ran', 'w')\n", model="open('ran', 'w')\n", json="open('ran', 'w')\n")
    assert check() == []
    assert not Path("ran").exists()


ABSENT_MODULES = {"pkg.trian": "pkg/trian.py", "pkg": "pkg/__main__.py", "absent.train": "absent"}


@pytest.mark.parametrize("module", ABSENT_MODULES)
def test_a_module_that_does_not_exist_is_an_error(module: str, wording: Wording) -> None:
    write(pkg__train="")
    (found,) = check("", module=module)
    assert not found.warning
    assert ABSENT_MODULES[module] in found.message
    wording(str(found).replace(sys.executable, "PYTHON"))


def test_an_installed_module_is_not_read() -> None:
    assert check("", module="json.tool") == []


INVALID = "def train(:\n    pass\n"


def test_a_syntax_error_is_an_error_where_it_is_surely_reached(wording: Wording) -> None:
    write(train=f"import model\nimport {ABSENT}\n", model=INVALID)
    found = check()
    assert places(found) == [("train.py", 2, True), ("model.py", 1, True)]
    assert found[1].column == 11
    wording(found[1])
    write(train="def f():\n    import model\n")
    assert places(check()) == [("model.py", 1, False)]
    assert places(check(interpreter=None)) == [("model.py", 1, False)]


def test_the_interpreter_decides_what_is_valid(tmp_path: Path) -> None:
    """It may be newer than ours."""
    newer = tmp_path / "newer"
    newer.write_text("""#!/bin/sh\necho '{"missing": [], "syntax": {}, "keras": ""}'\n""")
    newer.chmod(0o755)
    write(train=INVALID)
    request = Request("train.py")
    assert not has_valid_syntax(request)
    assert len(errors(syntax_problems(request, OURS))) == 1
    assert len(errors(syntax_problems(request))) == 1
    assert syntax_problems(request, Interpreter(newer, {})) == []
    assert check(interpreter=Interpreter(newer, {})) == []


def test_a_run_only_parses_the_main_program() -> None:
    write(train="import model\n", model=INVALID, pkg__train=INVALID)
    assert has_valid_syntax(Request("train.py"))
    assert not has_valid_syntax(Request("", script=ScriptRequest(module="pkg.train")))
    assert has_valid_syntax(Request("model.py", script=ScriptRequest(in_image=True)))
    assert has_valid_syntax(Request("job.yaml"))
    assert has_valid_syntax(Request("", script=ScriptRequest(module="pkg.absent")))


def test_a_program_that_is_not_valid_has_no_other_findings() -> None:
    write(pkg__train=INVALID)
    Path("pkg/__init__.py").write_text("import tensorflow as tf\nmodel.fit(data)\n")
    assert places(check("", module="pkg.train", interpreter=None)) == [("pkg/train.py", 1, True)]


def test_a_very_large_program_is_not_read() -> None:
    write(train=INVALID + "#" * 1_000_000)
    assert has_valid_syntax(Request("train.py"))
    assert check(interpreter=None) == []


def test_an_interpreter_that_does_not_start_is_a_warning(wording: Wording) -> None:
    write(train=f"import {ABSENT}\n")
    (found,) = check(interpreter=Interpreter(Path("/bin/false"), {}))
    assert found.warning
    wording(found)


def test_without_an_interpreter_imports_are_not_checked() -> None:
    write(train=f"import {ABSENT}\n")
    assert check(interpreter=None) == []


def test_a_shell_script_is_not_read() -> None:
    Path("train.sh").write_text("fi fi\n")
    assert check("train.sh") == []
    assert has_valid_syntax(Request("train.sh"))
