"""The warm-up of a version before it serves: the first run of a signature compiles it.

A model may bring requests, `assets.extra/tf_serving_warmup_requests`: a TFRecord file of PredictionLogs. Without the
file, every signature for predictions runs once on zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfjob.serve import call, protos, tensors
from tfjob.serve.call import Call
from tfjob.serve.engine import Engine
from tfjob.serve.errors import Code, Status, invalid
from tfjob.serve.sample import sample_inputs
from tfjob.serve.savedmodel import DEFAULT_SIGNATURE, INIT, PREDICT, SavedModel, Signature

FILE = "assets.extra/tf_serving_warmup_requests"
MOST = 1000
"""Records; TensorFlow Serving refuses longer files."""


def warm_up(model: SavedModel, engine: Engine, iterations: int = 1) -> int:
    """Run the model's requests, or one of zeros, and return how many; raise Status if a request fails."""
    file = model.folder / FILE
    if not file.is_file():
        return _run_zeros(model, engine)
    count = 0
    for count, record in enumerate(read_records(file), 1):
        if count > MOST:
            raise invalid(f"{file} has more than {MOST} records.")
        try:
            calls = calls_of(protos.parse(protos.PredictionLog, record), model)
            for one in calls * max(1, iterations):
                call.run(engine, one)
        except Status as status:
            raise Status(status.code, f"Record {count} of {file}: {status.message}") from None
    return count


def calls_of(log: Any, model: SavedModel) -> list[Call]:
    """Return the calls of a logged request."""
    kind = log.WhichOneof("log_type")
    if kind == "predict_log":
        request = log.predict_log.request
        signature = _signature(model, request.model_spec)
        inputs = {alias: tensors.to_array(proto) for alias, proto in request.inputs.items()}
        return [call.predict(signature, inputs, request.output_filter)]
    if kind == "classify_log":
        request = log.classify_log.request
        return [call.classify(_signature(model, request.model_spec), read_examples(request.input))]
    if kind == "regress_log":
        request = log.regress_log.request
        return [call.regress(_signature(model, request.model_spec), read_examples(request.input))]
    if kind == "multi_inference_log":
        request = log.multi_inference_log.request
        examples = read_examples(request.input)
        return [call.infer(_signature(model, task.model_spec), task.method_name, examples) for task in request.tasks]
    raise Status(Code.UNIMPLEMENTED, f"Unsupported log_type for warmup: {kind or 'none'}")


def read_examples(message: Any) -> list[bytes]:
    """Return the serialized Examples of an Input, each merged with the context."""
    kind = message.WhichOneof("kind")
    if kind is None:
        raise invalid("Input is empty.")
    examples = getattr(message, kind).examples
    if kind == "example_list":
        return [example.SerializeToString() for example in examples]
    # Concatenated messages are merged, and the features of an example win over those of the context.
    context = message.example_list_with_context.context.SerializeToString()
    return [context + example.SerializeToString() for example in examples]


def read_records(file: Path) -> Iterator[bytes]:
    """Read a TFRecord file: length, checksum, data, checksum.

    The checksums are not compared: Python would need a second for 10 MB, and a damaged request does not parse or run.
    """
    content = file.read_bytes()
    place = 0
    while place < len(content):
        end = place + 12 + int.from_bytes(content[place : place + 8], "little")
        if end + 4 > len(content):
            raise Status(Code.DATA_LOSS, f"{file} ends in the middle of a record.")
        yield content[place + 12 : end]
        place = end + 4


def _signature(model: SavedModel, spec: Any) -> Signature:
    name = spec.signature_name or DEFAULT_SIGNATURE
    signature = model.signatures.get(name)
    if signature is None or name == INIT:
        raise invalid(f'Serving signature key "{name}" not found.')
    return signature


def _run_zeros(model: SavedModel, engine: Engine) -> int:
    count = 0
    for signature in model.signatures.values():
        if signature.method_name not in ("", PREDICT) or signature.name == INIT:
            continue
        try:
            call.run(engine, call.predict(signature, sample_inputs(signature)))
            count += 1
        except Status as status:
            # Variables that were not restored; other errors may come from the sizes and values of the sample.
            if status.code is Code.FAILED_PRECONDITION:
                raise
    return count
