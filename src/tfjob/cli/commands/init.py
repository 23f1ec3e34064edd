"""`tfjob init`: create a manifest and a training script that run as they are."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from tfjob.cli.context import is_quiet
from tfjob.cli.examples import listed
from tfjob.errors import InvalidRequest

TEMPLATES = {
    "multi-worker": "two workers that train one model together",
    "parameter-server": "a chief, two workers and a parameter server",
    "single": "ordinary Keras code in one process",
}
DEFAULT = "multi-worker"
FAST = {
    "multi-worker": '--steps, "600", --checkpoint-every, "50"',
    "parameter-server": '--steps, "1000", --checkpoint-every, "100"',
    "single": '--epochs, "20"',
}
"""Arguments of the script with which a template trains for seconds instead of a minute, as the manifest writes them."""
MANIFEST = "tfjob.yaml"
COMMAND = b"command: [python, train.py"


@click.command()
@click.argument("template", default=DEFAULT, type=click.Choice(list(TEMPLATES)), metavar="[TEMPLATE]")
@click.argument("folder", default=".", metavar="[FOLDER]")
@click.option("--fast", is_flag=True, help="Train for a few seconds instead of about a minute.")
@click.option("-f", "--force", is_flag=True, help="Overwrite existing files.")
def init(template: str, folder: str, fast: bool, force: bool) -> None:
    """Write a manifest and a training script to FOLDER, or to the current folder. Both run without changes.

    \b
    multi-worker       two workers that train one model together (default)
    parameter-server   a chief, two workers and a parameter server
    single             ordinary Keras code in one process

    The scripts generate their own data, train for about a minute on two cores, print a falling loss, write summaries
    for TensorBoard, and resume from their last checkpoint. The job is named after FOLDER or, without one, after the
    template.
    """
    from tfjob.api.manifest.script import name_of

    target = Path(folder)
    # Jobs with the same name share storage: use the name of the folder if one was given.
    job = name_of([f"{target.name}.py"]) if target.name.strip(".") else template
    if target.is_file():
        raise InvalidRequest(f"'{target}' is a file, not a folder", "Name another folder.")
    files = _files(template, job, FAST[template] if fast else "")
    there = [target / name for name in files if (target / name).exists()]
    if there and not force:
        raise InvalidRequest(
            f"{' and '.join(map(str, there))} already {'exists' if len(there) == 1 else 'exist'}",
            "Choose another folder, or overwrite with --force.",
        )
    target.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (target / name).write_bytes(content)
    if is_quiet():
        return
    click.echo(f"wrote {' and '.join(str(target / name) for name in files)}: {TEMPLATES[template]}")
    click.echo(_next_commands(job, target))


def _files(template: str, job: str, arguments: str) -> dict[str, bytes]:
    from importlib.resources import files

    found = files("tfjob") / "templates" / template
    manifest = (found / MANIFEST).read_bytes().replace(template.encode(), job.encode())
    if arguments:
        manifest = manifest.replace(COMMAND, COMMAND + b", " + arguments.encode())
    return {MANIFEST: manifest, "train.py": (found / "train.py").read_bytes()}


def _next_commands(name: str, folder: Path) -> str:
    manifest = shlex.quote(str(folder / MANIFEST))
    commands = {
        f"tfjob run {manifest}": "run the job",
        f"tfjob logs {name} -f": "follow the logs, from another terminal",
        f"tfjob tensorboard {name}": "show its curves",
        f"tfjob run --dry-run {manifest}": "show what would run",
    }
    if command := _missing_tensorflow(folder):
        commands = {command: "install TensorFlow, which is missing", **commands}
    return "\n".join(listed(commands))


def _missing_tensorflow(folder: Path) -> str:
    """Return the command that installs TensorFlow in the job's environment, if it is missing there."""
    from tfjob.local.inputs.images import chosen_interpreter, has_module
    from tfjob.local.state.errors import Refusal

    try:
        python = chosen_interpreter(None, folder)
    except Refusal:  # `tfjob run` reports it
        return ""
    if has_module(python, "tensorflow"):
        return ""
    package = "'tfjob[tensorflow]'" if python == Path(sys.executable) else "tensorflow"
    return f"{python} -m pip install {package}"
