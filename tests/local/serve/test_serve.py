"""`tfjob serve` on this machine, and Deployments of model servers and TensorBoards from documents."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import numpy as np
import pytest

from support.command_line import CommandLine
from support.installed import Installed
from support.ports import free_port
from support.pseudo_terminal import PseudoTerminal
from support.running import Running, wait_until
from support.serve.models import publish
from tfjob import __version__
from tfjob.serve.client import connect
from tfjob.serve.errors import Status

MANIFESTS = Path(__file__).parents[2] / "support" / "data" / "serve" / "manifests"
JOB = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: train}
spec:
  tfReplicaSpecs:
    Worker:
      template:
        spec:
          containers:
          - name: tensorflow
            image: example.com/train
            command: [sh, -c, 'SCRIPT']
"""
EXPORT = 'mkdir -p "$TFJOB_OUTPUT_DIR/model" && cd "$TFJOB_OUTPUT_DIR/model" && cp -r FROM .new && mv .new TO'


@pytest.fixture
def cli(tool: Installed, tmp_path: Path) -> Iterator[CommandLine]:
    """A new state folder; no process may be left at the end of the test."""
    line = CommandLine(tool, tmp_path / "home")
    yield line
    line.end()


@pytest.fixture
def ports() -> tuple[int, int]:
    """Free ports for gRPC and REST."""
    return free_port(), free_port()


def options(ports: tuple[int, int]) -> list[str]:
    return ["--port", str(ports[0]), "--rest-port", str(ports[1])]


def post(port: int, model: str, value: float) -> dict[str, float]:
    """Ask over REST for half of a number plus the number of the version."""
    body = json.dumps({"instances": [value]}).encode()
    with urlopen(Request(f"http://127.0.0.1:{port}/v1/models/{model}:predict", data=body), timeout=60) as answer:
        (found,) = json.load(answer)["predictions"]
    return dict(found)


def version(port: int, model: str) -> float:
    """Return the version that answers; -1 if none does."""
    try:
        return post(port, model, 1.0)["offset"]
    except (URLError, ConnectionError):
        return -1


def until_version(port: int, model: str, wanted: int) -> None:
    wait_until(lambda: version(port, model) == wanted, 120)


def offered(cli: CommandLine, typed: str) -> set[str]:
    """Return what TAB offers after this."""
    words = str(typed.count(" "))
    env = {"_TFJOB_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": words}
    return {line.partition(",")[2] for line in cli(env=env).splitlines()}


def test_a_folder_is_served_followed_listed_stopped_and_resumed(
    cli: CommandLine, saved_models: Path, tmp_path: Path, ports: tuple[int, int]
) -> None:
    base = tmp_path / "half"
    publish(saved_models / "half/1", base, 1)
    told = cli("serve", str(base), *options(ports), "--detach")
    assert f"http://127.0.0.1:{ports[1]}/v1/models/half:predict" in told
    until_version(ports[1], "half", 1)
    with connect(f"grpc://127.0.0.1:{ports[0]}", "half") as model:
        assert model.predict({"x": np.array([4.0], np.float32)})["y"].tolist() == [3.0]

    publish(saved_models / "half/2", base, 2)
    until_version(ports[1], "half", 2)
    cli("wait", "half-serving", "--for", "running", "--timeout", "90s")
    (row,) = json.loads(cli("serve", "status", "-o", "json"))["items"]
    assert (row["name"], row["model"], row["versions"]) == ("half-serving", "half", ["2"])
    assert (row["grpc"], row["rest"]) == (f"127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[1]}")
    assert "half-serving" in cli("serve", "status", "half-serving").splitlines()[1]
    (job,) = json.loads(cli("ps", "-o", "json"))["items"]
    assert (job["name"], job["state"]) == ("half-serving", "Running")
    assert "half" in cli("logs", "half-serving")

    other = [*options((free_port(), ports[1])), "--server-name", "other"]
    told = cli("serve", str(base), *other, "--detach", code=2)
    assert f"port {ports[1]} of 127.0.0.1 is in use by half-serving.1" in told
    assert "tfjob serve stop half-serving" in cli("serve", str(base), *options(ports), code=2)
    assert "is unchanged" in cli("serve", str(base), *options(ports), "--detach")

    assert offered(cli, "tfjob serve stop ") == {"half-serving"}
    assert offered(cli, "tfjob predict ") == {"half"}
    cli("serve", "update", "half-serving", "--replicas", "2")
    wait_until(lambda: json.loads(cli("status", "half-serving", "-o", "json"))["ready"] == "2/2", 120)
    assert version(ports[1], "half") == 2
    cli("serve", "stop", "half")  # by the name of the model
    assert version(ports[1], "half") == -1
    cli("resume", "half-serving")
    until_version(ports[1], "half", 2)
    cli("delete", "half-serving", "-y")


def test_a_job_is_followed_from_before_its_first_export(
    cli: CommandLine, saved_models: Path, tmp_path: Path, ports: tuple[int, int]
) -> None:
    def run(script: str) -> None:
        manifest = tmp_path / "job.yaml"
        manifest.write_text(JOB.replace("SCRIPT", script))
        cli("run", str(manifest))

    run("true")
    told = cli("serve", "train", "--name", "half", *options(ports), "--detach")
    assert "no version" in told
    wait_until(lambda: status_code(ports[1]) == 404, 120)
    for number in ("1", "2"):
        run(EXPORT.replace("FROM", str(saved_models / "half" / number)).replace("TO", number))
        until_version(ports[1], "half", int(number))
    assert "half-serving.1 is not a job" in cli("serve", "half-serving", code=2)
    cli("delete", "half-serving", "train", "-y")


def status_code(port: int) -> int:
    try:
        with urlopen(f"http://127.0.0.1:{port}/v1/models/half/metadata", timeout=60) as answer:
            return int(answer.status)
    except URLError as error:
        return int(getattr(error, "code", 0))
    except ConnectionError:
        return 0


def test_a_saved_model_without_a_version_is_published_first(
    cli: CommandLine, saved_models: Path, tmp_path: Path, ports: tuple[int, int]
) -> None:
    model = tmp_path / "half"
    shutil.copytree(saved_models / "half/2", model)
    for _ in range(2):
        cli("serve", str(model), *options(ports), "--detach")
        until_version(ports[1], "half", 2)
        (row,) = json.loads(cli("serve", "status", "-o", "json"))["items"]
        assert row["versions"] == ["1"]
    shutil.rmtree(model)
    shutil.copytree(saved_models / "half/3", model)
    assert "is unchanged" in cli("serve", str(model), *options(ports), "--detach")
    until_version(ports[1], "half", 3)
    cli("delete", "half-serving", "-y")


def test_an_attached_server_shows_its_rate_until_ctrl_c(
    cli: CommandLine, saved_models: Path, ports: tuple[int, int]
) -> None:
    command = [*cli.tool.command, "serve", str(saved_models / "half"), *options(ports)]
    with PseudoTerminal(command, {**cli.environment(), "TERM": "xterm"}, MANIFESTS) as terminal:
        terminal.wait_for("half version 3")
        assert post(ports[1], "half", 1.0)["y"] == 3.5
        terminal.wait_for("p99")
        terminal.press("\x03")
        assert terminal.finish() == 130
    assert re.search(r"half version 3 · \d+ requests/s · p50 [\d.]+ ms · p99 [\d.]+ ms · Ctrl-C", terminal.shown)
    assert "To continue it: tfjob resume half-serving" in terminal.shown
    cli("delete", "half-serving", "-y")


def service_port(cli: CommandLine, name: str, port: int) -> int:
    """Return the port of 127.0.0.1 that leads to a port of a Service."""
    pattern = re.compile(rf"port {port} at 127\.0\.0\.1:(\d+)")
    wait_until(lambda: pattern.search(cli("events", name)) is not None, 120)
    (found,) = set(pattern.findall(cli("events", name)))
    return int(found)


def test_the_model_server_of_a_document_runs_as_it_is(cli: CommandLine, saved_models: Path, tmp_path: Path) -> None:
    publish(saved_models / "half/1", tmp_path / "nfs" / "models", 1)
    file = str(MANIFESTS / "serving.yaml")
    assert "no longer serves Deployments of extensions/v1beta1" in cli("check", file)
    told = cli("submit", file, "--volume", f"nfs={tmp_path / 'nfs'}", "--no-limits")
    assert "extensions/v1beta1" in told
    port = service_port(cli, "tf-serving", 80)
    # Without a readiness probe, a pod counts as ready before its server listens.
    wait_until(lambda: half_of_four(f"127.0.0.1:{port}") == [3.0], 120)
    with Running(cli.tool, cli.home, "deployment/tf-serving", ":9000", command="port-forward") as forwarding:
        forwarding.wait_for("Forwarding")
        assert half_of_four(forwarding.lines[0].split()[2]) == [3.0]
    cli("delete", "tf-serving", "-y")


def half_of_four(address: str) -> list[float]:
    """Ask over gRPC; return an empty list if no server answers."""
    with connect(f"grpc://{address}", "test") as model:
        try:
            return [float(one) for one in model.predict({"x": np.array([4.0], np.float32)})["y"]]
        except Status:
            return []


def test_the_image_of_tensorflow_serving_has_its_entry_point(
    cli: CommandLine, saved_models: Path, tmp_path: Path
) -> None:
    publish(saved_models / "half/2", tmp_path / "half", 2)
    cli("submit", str(MANIFESTS / "image.yaml"), "--volume", f"models={tmp_path}", "--no-limits")
    assert post(service_port(cli, "image", 8080), "half", 1.0)["y"] == 2.5
    cli("delete", "image", "-y")


def test_the_tensorboard_of_a_document_runs_as_it_is(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "nfs").mkdir()
    with Running(
        cli.tool, cli.home, str(MANIFESTS / "tensorboard.yaml"), "--volume", f"nfs={tmp_path / 'nfs'}", "--no-limits"
    ) as run:
        run.wait_for("Service tensorboard is ready")
        port = service_port(cli, "tensorboard", 6006)
        wait_until(lambda: environment_of(port) is not None, 120)
        assert environment_of(port) == "/tmp/tensorflow"
        run.process.send_signal(signal.SIGINT)
        assert run.finish() == 130
    cli("delete", "tensorboard", "-y")


def environment_of(port: int) -> str | None:
    """Return the folder that a TensorBoard shows; None if it does not answer yet."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/data/environment", timeout=60) as answer:
            return str(json.load(answer)["data_location"])
    except (URLError, ConnectionError):
        return None


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["nothing"], 3, "no job 'nothing'"),
        (["./nothing"], 3, "there is no folder"),
        (["FOLDER/half/1"], 2, "FOLDER/half/1 is one version of a model"),
        (["FOLDER/half", "--model-path", "x"], 2, "--model-path only applies to jobs"),
        (["FOLDER/half", "--port", "9", "--rest-port", "9"], 2, "--port and --rest-port are both 9"),
        (["FOLDER/half", "--replicas", "2"], 2, "--replicas only applies to a cluster"),
        (["FOLDER/half", "--server", "tfjob"], 2, "--server only applies to a cluster"),
        (["stop", "nothing"], 3, "no model server 'nothing'"),
        (["update", "nothing"], 2, "nothing to update"),
        (["update", "nothing", "--image", "x"], 2, "--image only applies to a cluster"),
        (["status", "nothing"], 3, "no model server 'nothing'"),
    ],
)
def test_what_cannot_be_served_is_explained(
    cli: CommandLine, saved_models: Path, words: list[str], code: int, text: str
) -> None:
    told = cli("serve", *(word.replace("FOLDER", str(saved_models)) for word in words), code=code)
    assert text.replace("FOLDER", str(saved_models)) in told


def test_a_dry_run_shows_the_process_and_the_objects(cli: CommandLine, saved_models: Path) -> None:
    text = cli("serve", str(saved_models / "half"), "--dry-run", "--name", "m")
    assert f"-m tfjob.serve --port=9000 --rest_api_port=8501 --model_name=m --model_base_path={saved_models}" in text
    shown = cli("serve", str(saved_models / "half"), "--dry-run", "-o", "yaml")
    shown = shown.replace(str(saved_models), "MODELS").replace(sys.executable, "PYTHON")
    cli.golden("serve-dry-run", shown.replace(f":{__version__}", ":VERSION"), exact=True)
    assert json.loads(cli("serve", "status", "-o", "json"))["items"] == []


def test_a_port_of_another_program_is_refused_with_its_name(cli: CommandLine, saved_models: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        ports = (free_port(), port)
        told = cli("serve", str(saved_models / "half"), *options(ports), "--detach", code=2)
    assert re.search(rf"port {port} of 127\.0\.0\.1 is in use by \S+ \(process \d+\)", told)
    assert json.loads(cli("ps", "-a", "-o", "json"))["items"] == []
