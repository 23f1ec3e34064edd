"""The wheel, installed into a virtualenv of its own and used by somebody who has no rights on the machine."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.installed import ORDINARY_UID, SYSTEM_PYTHON, Installed, open_to_everyone
from tfjob.cli.commands.init import TEMPLATES

ROOT = Path(__file__).parents[3]
EXAMPLE = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: meet}
spec:
  tfReplicaSpecs:
    Chief:
      template: &template
        spec:
          containers:
          - name: tensorflow
            image: python:3
            command: [sh, -c, 'echo "$TF_CONFIG" > /output/$HOSTNAME; echo uid $(id -u); exit $CODE']
            env: [{name: CODE, value: "${code}"}]
            volumeMounts: [{name: output, mountPath: /output}]
          volumes: [{name: output, persistentVolumeClaim: {claimName: output}}]
    Worker:
      template: *template
"""


@pytest.fixture(scope="module")
def virtualenv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh virtualenv of the system's interpreter, which everybody may execute."""
    folder = tmp_path_factory.mktemp("everyone") / "venv"
    interpreter = SYSTEM_PYTHON if Path(SYSTEM_PYTHON).exists() else sys.executable
    subprocess.run([interpreter, "-m", "venv", str(folder)], check=True)
    return folder


@pytest.fixture(scope="module")
def wheel(virtualenv: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what the wheel is made of, so that nothing is written into the project."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__"))
    pip(virtualenv, "wheel", "--no-deps", "--wheel-dir", str(target), str(source))
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed_wheel(virtualenv: Path, wheel: Path) -> Installed:
    """The command of the virtualenv, as somebody without an account calls it."""
    pip(virtualenv, "install", str(wheel))
    open_to_everyone(virtualenv.parent)
    return Installed((str(virtualenv / "bin" / "tfjob"),), {"PATH": "/usr/local/bin:/usr/bin:/bin"}, ORDINARY_UID)


@pytest.mark.root
def test_an_ordinary_user_runs_a_job_with_the_installed_wheel(installed_wheel: Installed, tmp_path: Path) -> None:
    """Full level, no account, nothing but the wheel: success and failure with their exit codes; all files private."""
    home = installed_wheel.make_folder(tmp_path / "home")
    folder = installed_wheel.make_folder(tmp_path / "job")
    manifest = folder / "meet.yaml"
    manifest.write_text(EXAMPLE)

    good = installed_wheel.tfjob(home, "run", str(manifest), "-p", "code=0", "--level", "full", cwd=folder)
    assert good.returncode == 0, good.stdout + good.stderr
    assert f"uid {ORDINARY_UID}" in good.stdout
    told = json.loads((home / "claims" / "default" / "output" / "meet-chief-0").read_text())
    assert told["cluster"] == {"chief": ["meet-chief-0.default.svc:2222"], "worker": ["meet-worker-0.default.svc:2222"]}

    bad = installed_wheel.tfjob(home, "run", str(manifest), "-p", "code=3", "--level", "full", cwd=folder)
    assert bad.returncode == 1, bad.stdout + bad.stderr

    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    for path in home.rglob("*"):
        assert path.lstat().st_uid == ORDINARY_UID, path
    for name in ("runs", "claims", "secrets"):
        assert stat.S_IMODE((home / name).stat().st_mode) == 0o700, name


@pytest.mark.parametrize(("module", "extra"), [("aiohttp", "kube"), ("prometheus_client", "operator")])
def test_the_wheel_alone_tells_how_to_install_what_a_command_lacks(
    installed_wheel: Installed, virtualenv: Path, module: str, extra: str
) -> None:
    """An extra that is really not there, in a virtualenv that has nothing else."""
    program = f"from tfjob.cli.exit_codes import guarded; guarded(lambda **_: __import__({module!r}))"
    python = str(virtualenv / "bin" / "python")
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith(f"{python} -m pip install 'tfjob[{extra}]'\n")


def test_the_wheel_has_the_package_its_types_and_its_licence_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {"tfjob/py.typed", "tfjob/api/schema/pod_schema.json", "tfjob/__main__.py"} <= set(names)
    assert {f"tfjob/templates/{name}/{file}" for name in TEMPLATES for file in ("tfjob.yaml", "train.py")} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert all(name.startswith(("tfjob/", "tfjob-")) for name in names)


def pip(virtualenv: Path, *words: str) -> None:
    """Runs the virtualenv's own pip."""
    subprocess.run([str(virtualenv / "bin" / "python"), "-m", "pip", "--quiet", *words], check=True)
