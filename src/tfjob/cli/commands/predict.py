"""`tfjob predict`: ask a served model about an image, an array or the MNIST test files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfjob.cli import exit_codes
from tfjob.cli.completion import SERVED_MODEL
from tfjob.cli.context import On, place_options
from tfjob.cli.output import print_object
from tfjob.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from tfjob.serve.client import Model
    from tfjob.serve.savedmodel import Signature
    from tfjob.serve.tensors import Array

FORWARDED = "grpc"
"""The port of a server's pod that requests go to."""
BATCH = 100
"""Test images per request."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What to send, and how to read the answer."""

    image: str
    file: str
    data_dir: str
    signature: str
    scale: float
    invert: bool
    timeout: float
    as_json: bool


@click.command()
@click.argument("model", type=SERVED_MODEL)
@click.option("--image", default="", metavar="FILE", help="Ask about a PNG image; it is resized to fit the model.")
@click.option("--file", default="", metavar="FILE", help="Send an array (.npy), whose first dimension is the batch.")
@click.option("--data-dir", default="", metavar="FOLDER", help="Count errors on the MNIST test files in FOLDER.")
@click.option("--signature", default="", metavar="NAME", help="Signature; default: serving_default, or the only one.")
@click.option("--scale", type=float, default=1.0, metavar="FACTOR", help="Multiply the pixels by FACTOR (images only).")
@click.option("--invert", is_flag=True, help="Send the negative of the image, for dark digits on white paper.")
@click.option(
    "--timeout", type=float, default=10.0, show_default=True, metavar="SECONDS", help="Deadline of a request."
)
@click.option("--json", "as_json", is_flag=True, help="Print the outputs as JSON.")
@place_options
def predict(model: str, on: On, namespace: str, **options: Any) -> None:
    """Ask a served model, without TensorFlow.

    MODEL is a model that `tfjob serve` serves, on this machine or, with --on k8s, on a cluster; or a server,
    HOST:PORT/NAME, with gRPC or REST. NAME is the name of the model. The command asks the server for the names, types
    and shapes of the inputs, so the model's graph should scale the pixels.
    """
    asked = Asked(**options)
    if (count := sum(map(bool, (asked.image, asked.file, asked.data_dir)))) != 1:
        what = "--image, --file and --data-dir exclude each other" if count else "there is nothing to send"
        raise InvalidRequest(what, "Use one of --image, --file and --data-dir.")
    with exit_codes.needs("serve"):
        from tfjob.serve import client
        from tfjob.serve.errors import Code, Status

    def send(server: str, name: str) -> None:
        with client.connect(server, name, asked.timeout) as served:
            _ask(served, asked)

    place, _, name = model.partition("/") if "://" not in model else model.rpartition("/")
    try:
        if ":" in place:
            send(place, name or "default")
        else:
            asyncio.run(_forwarded(on, namespace, place, name, send))
    except NotFound as error:
        raise NotFound(error.message, f"{error.hint}\nTo serve a model: tfjob serve JOB".strip()) from None
    except Status as error:
        what = "did not answer" if error.code is Code.UNAVAILABLE else f"answered {error.code.name}"
        raise InvalidRequest(f"{model} {what}: {error.message}", _hint(error, place, name)) from None


def _hint(error: Any, place: str, name: str) -> str:
    from tfjob.serve.errors import Code

    if error.code is Code.NOT_FOUND and ":" in place:
        return f"Add the name of the model: {place}/NAME" if not name else "Check the name of the model."
    return "To serve a model: tfjob serve JOB" if error.code is Code.UNAVAILABLE else ""


async def _forwarded(on: On, namespace: str, place: str, name: str, send: Callable[[str, str], None]) -> None:
    """Forward a port to the Deployment of a model and ask it in a thread."""
    from tfjob.jobs.port_forward import ForwardRequest, PortPair
    from tfjob.launch import target
    from tfjob.serve.deploy import SUFFIX, name_for

    deployment = place if name or place.endswith(SUFFIX) else name_for(place)
    request = ForwardRequest(f"deployment/{deployment}", [PortPair(0, FORWARDED)])
    ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    async with target.connect(on, namespace) as there:
        forwarding = asyncio.ensure_future(there.port_forward(request, ready.set_result, _warn))
        try:
            await asyncio.wait({forwarding, ready}, return_when=asyncio.FIRST_COMPLETED)
            if forwarding.done():
                await forwarding
            (forwarded,) = ready.result()
            server = f"grpc://{forwarded.address}:{forwarded.port}"
            await asyncio.to_thread(send, server, name or place.removesuffix(SUFFIX))
        finally:
            forwarding.cancel()
            await asyncio.wait({forwarding})


def _warn(text: str) -> None:
    click.echo(text, err=True)


def _ask(model: Model, asked: Asked) -> None:
    from tfjob.serve.client import choose_signature

    signature = choose_signature(model.signatures(), asked.signature)
    if asked.data_dir:
        _test(model, signature, asked)
        return
    inputs = {_only_input(signature): _array(signature, asked)}
    outputs = model.predict(inputs, signature.name)
    if asked.as_json:
        from tfjob.serve.client import to_json

        _print_json(model, signature, {name: to_json(array) for name, array in outputs.items()})
        return
    from tfjob.serve.answers import answers, bars

    given = answers(outputs)
    for number, one in enumerate(given.classes.tolist()):
        click.echo(f"it is a {one}" if asked.image else str(one))
        for line in bars(given, number) if asked.image else ():
            click.echo(f"  {line}")


def _print_json(model: Model, signature: Signature, outputs: dict[str, Any]) -> None:
    print_object("Prediction", {"model": model.name, "signature": signature.name, "outputs": outputs}, "json")


def _only_input(signature: Signature) -> str:
    from tfjob.serve.answers import only_input

    return only_input(signature)


def _array(signature: Signature, asked: Asked) -> Array:
    """Return what to send: an image as the input takes it, or the array of a file in its type."""
    from tfjob.serve.images import fit, read_png
    from tfjob.serve.tensors import NUMPY

    spec = signature.inputs[_only_input(signature)]
    if asked.image:
        pixels = read_png(Path(asked.image))
        return fit((255 - pixels if asked.invert else pixels)[None], spec, asked.scale)
    import numpy as np

    try:
        array = np.load(asked.file, allow_pickle=False)
    except (ValueError, EOFError):
        raise InvalidRequest(f"{asked.file} is not an array of numpy", "Write it with numpy.save.") from None
    if not isinstance(array, np.ndarray):
        raise InvalidRequest(f"{asked.file} contains several arrays", "Write one array with numpy.save.")
    wanted = NUMPY.get(spec.dtype)
    if wanted is None or (array.dtype != wanted and not np.can_cast(array.dtype, wanted, "same_kind")):
        kind = spec.dtype.removeprefix("DT_").lower()
        raise InvalidRequest(f"{asked.file} contains {array.dtype}, but the model takes {kind}", "Convert the array.")
    return array.astype(wanted)


def _test(model: Model, signature: Signature, asked: Asked) -> None:
    """Print the error rate on the MNIST test images."""
    from tfjob.serve.answers import ask
    from tfjob.serve.images import read_mnist

    images, labels = read_mnist(Path(asked.data_dir))
    wrong = 0
    for start in range(0, len(images), BATCH):
        part = slice(start, start + BATCH)
        wrong += int((ask(model, signature, images[part], asked.scale).classes != labels[part]).sum())
    if asked.as_json:
        _print_json(model, signature, {"images": len(images), "wrong": wrong})
    else:
        click.echo(f"{len(images)} images, error rate {wrong / len(images):.1%}")
