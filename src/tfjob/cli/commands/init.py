"""`tfjob init`: a manifest and a training script that run as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tfjob.cli import exit_codes
from tfjob.cli.context import is_quiet

if TYPE_CHECKING:
    from pathlib import Path

TEMPLATES = {
    "multi-worker": "two workers that train one model together",
    "parameter-server": "a chief, two workers and a parameter server",
    "single": "ordinary Keras code in one process",
}
DEFAULT = "multi-worker"
MANIFEST = "tfjob.yaml"


@click.command()
@click.argument("template", default=DEFAULT, type=click.Choice(list(TEMPLATES)), metavar="[TEMPLATE]")
@click.argument("folder", default=".", metavar="[FOLDER]")
@click.option("-f", "--force", is_flag=True, help="Write over files that are there.")
def init(template: str, folder: str, force: bool) -> None:
    """Write a manifest and a training script that run as they are, into the current folder or another.

    \b
    multi-worker       two workers that train one model together (without TEMPLATE: this)
    parameter-server   a chief, two workers and a parameter server
    single             ordinary Keras code in one process

    They make their own data, print a falling loss, keep checkpoints and go on from them after a kill, and have curves
    for TensorBoard. The job is called like the FOLDER or, without one, like the template.
    """
    from pathlib import Path

    target = Path(folder)
    job = _job_name(template, target)
    files = _files(template, job)
    there = [target / name for name in files if (target / name).exists()]
    if there and not force:
        raise exit_codes.Stop(
            exit_codes.BAD_INPUT,
            f"{', '.join(map(str, there))} {'is' if len(there) == 1 else 'are'} there already",
            "Choose another folder, or write over with --force.",
        )
    target.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (target / name).write_bytes(content)
    if is_quiet():
        return
    click.echo(f"wrote {' and '.join(str(target / name) for name in files)}: {TEMPLATES[template]}")
    click.echo(_next_commands(job, target))


def _job_name(template: str, folder: Path) -> str:
    """That of a folder that was named, else the template's: jobs of one name share their storage."""
    from tfjob.api.manifest.script import name_of

    return name_of(f"{folder.name}.py") if folder.name.strip(".") else template


def _files(template: str, job: str) -> dict[str, bytes]:
    """Name -> content of the files of a template, the manifest first; in it the job goes by the template's name."""
    from importlib.resources import files

    found = files("tfjob") / "templates" / template
    manifest = (found / MANIFEST).read_bytes().replace(template.encode(), job.encode())
    return {MANIFEST: manifest, "train.py": (found / "train.py").read_bytes()}


def _next_commands(name: str, folder: Path) -> str:
    """What to type now."""
    import shlex

    manifest = shlex.quote(str(folder / MANIFEST))
    commands = {
        f"tfjob run {manifest}": "train",
        f"tfjob logs {name} -f": "what it says, from another terminal",
        f"tfjob tensorboard {name}": "its curves",
        f"tfjob run --dry-run {manifest}": "what would start",
    }
    if command := _missing_tensorflow(folder):
        commands = {command: "TensorFlow, which is not there yet", **commands}
    width = max(map(len, commands))
    return "\n".join(f"  {command:<{width}}   {words}" for command, words in commands.items())


def _missing_tensorflow(folder: Path) -> str:
    """How to install TensorFlow where the job will run, if it is not there."""
    import sys
    from pathlib import Path

    from tfjob.local.inputs.images import chosen_interpreter, has_module
    from tfjob.local.state.errors import Refusal

    try:
        python = chosen_interpreter(None, folder)
    except Refusal:  # `run` will say it
        return ""
    if has_module(python, "tensorflow"):
        return ""
    package = "'tfjob[tensorflow]'" if python == Path(sys.executable) else "tensorflow"
    return f"{python} -m pip install {package}"
