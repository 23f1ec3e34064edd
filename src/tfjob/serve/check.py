"""Whether a model answers: load a SavedModel in the serving engine, and run each signature once.

The engine runs in a separate process (`python -m tfjob.serve.check FOLDER`), because a damaged model can crash
TensorFlow's library, which also writes to stderr while it starts.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from signal import Signals

from tfjob.errors import InvalidRequest, UserError
from tfjob.serve import engine, savedmodel
from tfjob.serve.errors import Code, Status
from tfjob.serve.sample import has_unknown_sizes, sample_inputs
from tfjob.serve.savedmodel import INIT, Signature

KERAS_HINT = "tf.saved_model.save does not save a model of Keras 3 for servers: use tfjob.export or model.export."
UNREAD_VARIABLE = ("Could not find variable", "uninitialized")
SECONDS = 600.0
"""A model that does not load or answer in this time does not pass."""


def check(folder: Path, signatures: Sequence[Signature], shown: Path | None = None) -> None:
    """Raise InvalidRequest if a SavedModel does not load or a signature fails; errors name `shown` if it is given."""
    name = shown or folder
    if not signatures:
        raise InvalidRequest(f"{name} has no signature that a server could run", "Export the model with tfjob.export.")
    command = [sys.executable, "-P", "-m", __name__, str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise InvalidRequest(f"{name} did not load and answer within {SECONDS:g} s") from None
    if done.returncode < 0:
        raise InvalidRequest(f"{name} crashes the serving engine ({Signals(-done.returncode).name})")
    try:
        message, hint = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        last = (done.stderr.strip().splitlines() or ["no reason was reported"])[-1]
        raise InvalidRequest(f"cannot check {name}: {last}") from None
    if message:
        raise InvalidRequest(f"{name} {message}" if hint is not None else message, hint or "")


def main(folder: Path) -> None:
    """Print a message and a hint as JSON, or an empty message; without a hint, the message is about this machine."""
    answer: tuple[str, str | None] = "", ""
    try:
        answer = problem(folder)
    except UserError as error:
        answer = str(error), None
    print(json.dumps(answer))


def problem(folder: Path) -> tuple[str, str]:
    """Return what is wrong with a complete SavedModel, after its name, and a hint; empty if it answers."""
    signatures = savedmodel.read(folder).signatures
    try:
        loaded = engine.load(folder)
    except Status as error:
        return f"does not load in the serving engine: {_first_sentence(error.message)}", ""
    try:
        for name, signature in signatures.items():
            if name != INIT and (found := _problem_of(loaded, signature)):
                return found
    finally:
        loaded.close()
    return "", ""


def _problem_of(loaded: engine.Engine, signature: Signature) -> tuple[str, str] | None:
    """Run a signature on zeros, which a model may reject if it leaves sizes open or reads strings."""
    inputs = sample_inputs(signature)
    feeds = {signature.inputs[alias].name: array for alias, array in inputs.items()}
    try:
        loaded.run(feeds, [spec.name for spec in signature.outputs.values()])
    except Status as error:
        if error.code is Code.INVALID_ARGUMENT and has_unknown_sizes(signature):
            return None
        hint = KERAS_HINT if any(text in error.message for text in UNREAD_VARIABLE) else ""
        return f"loads, but its signature '{signature.name}' fails: {_first_sentence(error.message)}", hint
    return None


def _first_sentence(message: str) -> str:
    return message.strip().partition("\n")[0].partition(". ")[0].rstrip(".")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
