"""The image of the model server, alone in its root file system."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from support.installed import open_parents
from support.ports import free_port
from support.running import ending, wait_until
from tfjob import __version__
from tfjob.serve.deploy import IMAGES

ROOT = Path(__file__).parents[3]
MAKE = """
import sys
from pathlib import Path
sys.path[:0] = ["tools", "."]
import image
image.root_file_system(Path(sys.argv[1]), image.SERVING)
"""
CONFIG = """
import json, sys
sys.path[:0] = ["tools", "."]
import image
print(json.dumps({"name": image.SERVING.name, **image.SERVING.config}))
"""

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The root file system of a container: a gigabyte, most of which are TensorFlow's libraries."""
    folder = tmp_path_factory.mktemp("image") / "rootfs"
    subprocess.run([sys.executable, "-c", MAKE, str(folder)], cwd=ROOT, check=True)
    for name in ("dev", "proc", "models"):
        (folder / name).mkdir()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def config() -> dict[str, object]:
    made = subprocess.run([sys.executable, "-c", CONFIG], cwd=ROOT, check=True, capture_output=True, text=True)
    found: dict[str, object] = json.loads(made.stdout)
    return found


def command(root: Path, models: Path, config: dict[str, object], words: str) -> list[str]:
    """Return the command that runs words in a root file system, with the mounts and the user of a container."""
    binds = {"/dev": root / "dev", "/proc": root / "proc", models: root / "models"}
    mounts = [f"mount --rbind {source} {target}" for source, target in binds.items()]
    assert isinstance(config["Env"], list)
    chroot = f"exec /usr/sbin/chroot --userspec={config['User']} --groups= {root} {words}"
    line = " && ".join([*mounts, f"export {' '.join(config['Env'])}", chroot])
    return ["unshare", "--mount", "sh", "-c", line]


def test_its_entry_point_serves_the_model_that_the_environment_names(
    root: Path, config: dict[str, object], saved_models: Path
) -> None:
    open_parents(saved_models)
    assert isinstance(config["Env"], list)
    assert isinstance(config["Entrypoint"], list)
    changed = {**config, "Env": [*config["Env"], "MODEL_NAME=half"]}
    grpc, rest = free_port(), free_port()
    flags = f"--port={grpc} --rest_api_port={rest} --host=127.0.0.1"
    words = f"{' '.join(config['Entrypoint'])} {flags}"
    with ending(subprocess.Popen(command(root, saved_models, changed, words))) as server:
        status = ""

        def is_available() -> bool:
            nonlocal status
            assert server.poll() is None
            try:
                with urlopen(f"http://127.0.0.1:{rest}/v1/models/half", timeout=60) as answer:
                    status = answer.read().decode()
            except (URLError, ConnectionError):
                return False
            return "AVAILABLE" in status

        wait_until(is_available, 120)
        assert '"version": "3"' in status
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0


def test_its_program_has_the_name_of_the_original(root: Path, config: dict[str, object], tmp_path: Path) -> None:
    done = subprocess.run(
        command(root, tmp_path, config, "tensorflow_model_server --version"), capture_output=True, text=True, check=True
    )
    assert re.fullmatch(rf"TensorFlow ModelServer: tfjob {__version__}\nTensorFlow Library: \d+\..*\n", done.stdout)
    assert sorted(path.name for path in (root / "app" / "tensorflow").glob("*.py")) == []


def test_its_name_and_its_dockerfile_agree_with_the_manifests(config: dict[str, object]) -> None:
    assert IMAGES["tfjob"] == f"localhost/{config['name']}:{__version__}"
    text = (ROOT / "Dockerfile.serving").read_text().replace("\\\n", " ")
    said = dict(re.findall(r"^(ENV|WORKDIR|USER|ENTRYPOINT) (.*)$", text, re.MULTILINE))
    assert said["ENV"].split() == config["Env"]
    assert said["WORKDIR"] == config["WorkingDir"]
    assert said["USER"] == config["User"]
    assert json.loads(said["ENTRYPOINT"]) == config["Entrypoint"]
