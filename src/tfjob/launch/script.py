"""`tfjob run SCRIPT`: what the command line says of a script, and the manifest that it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfjob.launch.errors import InvalidRequest

if TYPE_CHECKING:
    from tfjob.api.manifest.script import Script

SUFFIX = ".py"


@dataclass(frozen=True)
class ScriptRequest:
    """What a command line asks for of a script and nothing else."""

    workers: int | None = None
    ps: int | None = None
    chief: bool = False
    evaluator: int | None = None
    image: str = ""
    in_image: bool = False
    arguments: Sequence[str] = ()

    def options(self) -> list[str]:
        """Those that were used, as the user wrote them."""
        used = {
            "--workers": self.workers is not None,
            "--ps": self.ps is not None,
            "--chief": self.chief,
            "--evaluator": self.evaluator is not None,
            "--image": bool(self.image),
            "--in-image": self.in_image,
            "--": bool(self.arguments),
        }
        return [option for option, given in used.items() if given]


def is_script(file: str) -> bool:
    """Whether a command line names a script and not a manifest."""
    return file.endswith(SUFFIX)


def refuse_options_of_a_script(file: str, request: ScriptRequest) -> None:
    """Stops a command line that names a manifest and says what only a script can be told."""
    used = request.options()
    if not used:
        return
    if used == ["--"]:
        what, hint = f"{' '.join(request.arguments)}: arguments are", "Write them into its containers' args."
    else:
        what, hint = f"{used[0]} is", "Write it into the manifest: replicas and image are fields of it."
    raise InvalidRequest(f"{what} for a script, and {file} is a manifest", hint)


def script_manifest(file: str, request: ScriptRequest, name: str, *, cluster: bool) -> bytes:
    """The manifest of a script: for here, where it lies in the working folder, or for a cluster."""
    from tfjob.api.manifest.script import Counts, Impossible, documents, name_of
    from tfjob.api.text.writer import yaml_text

    script = _for_cluster(file, request) if cluster else _for_here(file, request)
    counts = Counts(request.workers, request.ps or 0, request.chief, request.evaluator or 0)
    try:
        found = documents(script, counts, name or name_of(file), request.image)
    except Impossible as impossible:
        raise InvalidRequest(impossible.message, impossible.hint) from None
    return yaml_text(found).encode()


def _for_here(file: str, request: ScriptRequest) -> Script:
    from tfjob.api.manifest.script import Script

    if request.in_image:
        raise InvalidRequest("--in-image is about a cluster, and the job is for this machine", "Leave it out.")
    _text(file)
    return Script(file, request.arguments)


def _for_cluster(file: str, request: ScriptRequest) -> Script:
    from tfjob.api.manifest.script import Impossible, Script, alone

    if not request.image:
        raise InvalidRequest(
            f"{file} needs an image to run in on a cluster",
            "Name one that has Python and TensorFlow: --image tensorflow/tensorflow:2.21.0",
        )
    if request.in_image:
        return Script(file, request.arguments)
    text = _text(file)
    try:
        alone(text, _modules_beside(Path(file)))
    except Impossible as impossible:
        raise InvalidRequest(
            f"{file} cannot be sent to the cluster: {impossible.message}",
            "Put it into the image with all that it needs, and add --in-image.",
        ) from None
    return Script(file, request.arguments, text)


def _text(file: str) -> str:
    """What a script holds; it must be there and be text."""
    if Path(file).is_dir():
        raise InvalidRequest(f"{file} is a folder", "Name a script in it.")
    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InvalidRequest(f"{file} is no UTF-8 text") from None


def _modules_beside(script: Path) -> set[str]:
    """What the script could import from its own folder."""
    files = {path.stem for path in script.parent.glob("*.py")} - {script.stem}
    return files | {path.name for path in script.parent.iterdir() if path.is_dir() and any(path.glob("*.py"))}
