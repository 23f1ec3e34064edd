"""A client of a served model, over gRPC or REST: it asks the server for the signatures, so callers need only arrays.

    with connect("127.0.0.1:9000", "mnist") as model:
        outputs = model.predict({"images": images})

It works with TensorFlow Serving and with this project's server. REST needs numpy only, gRPC also grpcio.
"""

from __future__ import annotations

import base64
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Protocol, Self

import numpy as np

from tfjob.errors import InvalidRequest
from tfjob.serve import protos
from tfjob.serve.errors import BY_NUMBER, Code, Status
from tfjob.serve.savedmodel import INIT, Signature, TensorSpec, signature_of
from tfjob.serve.tensors import NUMPY, STRING, Array, to_array, to_proto

DEFAULT_SIGNATURE = "serving_default"
SECONDS = 10.0
"""The default deadline of a request."""
LARGEST_MESSAGE = 2**31 - 1
RETRIES = {
    "methodConfig": [
        {
            "name": [{}],
            "retryPolicy": {
                "maxAttempts": 4,
                "initialBackoff": "0.05s",
                "maxBackoff": "1s",
                "backoffMultiplier": 3,
                "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"],
            },
        }
    ]
}
"""A service configuration of gRPC: a server that stops cancels requests that arrive before its clients know that.

The library does so, also in TensorFlow Serving. On a new connection, another pod answers.
"""
PROBE = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
SERVICE = "/tensorflow.serving.PredictionService/"
METADATA = "signature_def"


class Model(Protocol):
    """A model on a server. Several threads may use it at once. Methods raise Status."""

    name: str

    def signatures(self) -> Mapping[str, Signature]:
        """Return the signatures of the version that answers, by name."""

    def predict(self, inputs: Mapping[str, Array], signature: str = DEFAULT_SIGNATURE) -> dict[str, Array]:
        """Return the outputs by name."""

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


def connect(server: str, model: str, seconds: float = SECONDS) -> Model:
    """Return a model on a server: HOST:PORT, or with a protocol: grpc://HOST:PORT, http://HOST:PORT.

    Without a protocol, the server's first bytes decide. Raises InvalidRequest and Status.
    """
    protocol, separator, address = server.rpartition("://")
    host, _, port = address.rpartition(":")
    is_known = not separator or protocol in ("grpc", "http", "https")
    if not (is_known and host and port.isdecimal() and int(port) < 65536):
        raise InvalidRequest(f"invalid server '{server}'", "Use HOST:PORT, for example 127.0.0.1:9000.")
    if not separator:
        protocol = "http" if _answers_http1(host.strip("[]"), int(port), seconds) else "grpc"
    if protocol == "grpc":
        return GrpcModel(address, model, seconds)
    return RestModel(f"{protocol}://{address}", model, seconds)


def choose_signature(signatures: Mapping[str, Signature], name: str = "") -> Signature:
    """Return the signature of this name; without a name, the default one or the only one. Raises InvalidRequest."""
    wanted = name or (DEFAULT_SIGNATURE if DEFAULT_SIGNATURE in signatures or len(signatures) != 1 else min(signatures))
    if wanted not in signatures:
        known = ", ".join(sorted(signatures)) or "none"
        raise InvalidRequest(f"the model has no signature '{wanted}'", f"Its signatures: {known}.")
    return signatures[wanted]


def _answers_http1(host: str, port: int, seconds: float) -> bool:
    """Return whether a server answers HTTP/1, as REST does; a server of gRPC begins with a frame of HTTP/2."""
    try:
        with socket.create_connection((host, port), timeout=seconds) as connection:
            connection.sendall(PROBE)
            return connection.recv(5) == b"HTTP/"
    except OSError as error:
        reason = "it did not answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
        raise Status(Code.UNAVAILABLE, f"cannot reach {host}:{port}: {reason}") from None


class _Closing:
    def close(self) -> None:
        """Close the connections; REST keeps none."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class GrpcModel(_Closing):
    """A model over gRPC."""

    def __init__(self, address: str, name: str, seconds: float = SECONDS) -> None:
        import grpc

        self.name = name
        self._seconds = seconds
        limits = [(f"grpc.max_{kind}_message_length", LARGEST_MESSAGE) for kind in ("send", "receive")]
        self._channel = grpc.insecure_channel(address, [*limits, ("grpc.service_config", json.dumps(RETRIES))])

    def signatures(self) -> Mapping[str, Signature]:
        request = protos.GetModelMetadataRequest(metadata_field=[METADATA])
        request.model_spec.name = self.name
        response = protos.GetModelMetadataResponse.FromString(self._call("GetModelMetadata", request))
        found = protos.SignatureDefMap.FromString(response.metadata[METADATA].value).signature_def
        return {name: signature_of(name, found[name]) for name in sorted(found) if name != INIT}

    def predict(self, inputs: Mapping[str, Array], signature: str = DEFAULT_SIGNATURE) -> dict[str, Array]:
        request = protos.PredictRequest()
        request.model_spec.name, request.model_spec.signature_name = self.name, signature
        for name, array in inputs.items():
            to_proto(array, request.inputs[name], as_content=True)
        response = protos.PredictResponse.FromString(self._call("Predict", request))
        return {name: to_array(response.outputs[name]) for name in sorted(response.outputs)}

    def close(self) -> None:
        self._channel.close()

    def _call(self, method: str, request: Any) -> bytes:
        import grpc

        try:
            answer: bytes = self._channel.unary_unary(SERVICE + method)(
                request.SerializeToString(), timeout=self._seconds
            )
        except grpc.RpcError as error:
            raise Status(BY_NUMBER[error.code().value[0]], error.details() or "") from None
        return answer


class RestModel(_Closing):
    """A model over REST."""

    def __init__(self, address: str, name: str, seconds: float = SECONDS) -> None:
        self.name = name
        self._url = f"{address}/v1/models/{name}"
        self._seconds = seconds
        self._known: Mapping[str, Signature] = {}

    def signatures(self) -> Mapping[str, Signature]:
        metadata = self._call("/metadata")
        found: dict[str, Any] = metadata["metadata"][METADATA][METADATA]
        return {name: _signature(name, found[name]) for name in sorted(found) if name != INIT}

    def predict(self, inputs: Mapping[str, Array], signature: str = DEFAULT_SIGNATURE) -> dict[str, Array]:
        body = {"signature_name": signature, "inputs": {name: to_json(array) for name, array in inputs.items()}}
        outputs = self._call(":predict", body)["outputs"]
        if signature not in self._known:
            self._known = self.signatures()
        specs = self._known[signature].outputs
        if not (isinstance(outputs, dict) and outputs.keys() <= specs.keys()):
            outputs = {next(iter(specs)): outputs}  # one output comes without its name
        return {name: from_json(value, specs[name]) for name, value in sorted(outputs.items())}

    def _call(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"})  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=self._seconds) as response:  # noqa: S310
                return json.load(response)
        except urllib.error.HTTPError as error:
            code = next((code for code in Code if code.http == error.code), Code.UNKNOWN)
            raise Status(code, _error_text(error.read()) or str(error.reason)) from None
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise Status(Code.UNAVAILABLE, f"cannot reach {self._url}: {reason}") from None


def _error_text(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return ""


def _signature(name: str, found: Mapping[str, Any]) -> Signature:
    """Return a signature of the metadata that REST returns, in which sizes are strings."""
    inputs, outputs = (
        {alias: _spec(one) for alias, one in sorted(found[side].items())} for side in ("inputs", "outputs")
    )
    return Signature(name, found.get("method_name", ""), inputs, outputs)


def _spec(info: Mapping[str, Any]) -> TensorSpec:
    shape = info["tensor_shape"]
    sizes = [int(dim["size"]) for dim in shape.get("dim", ())]
    known = None if shape.get("unknown_rank") else tuple(None if size < 0 else size for size in sizes)
    return TensorSpec(info.get("name", ""), info["dtype"], known)


def to_json(array: Array) -> Any:
    """Return an array as nested lists; bytes as the object that REST expects for them."""
    if array.dtype.hasobject:
        flat = [{"b64": base64.b64encode(one).decode()} for one in array.ravel().tolist()]
        holder = np.empty(len(flat), object)
        holder[:] = flat
        return holder.reshape(array.shape).tolist()
    return array.tolist()


def from_json(value: Any, spec: TensorSpec) -> Array:
    if spec.dtype != STRING:
        return np.asarray(value, NUMPY[spec.dtype])
    array = np.asarray(value, object)
    flat = [base64.b64decode(one["b64"]) if isinstance(one, dict) else str(one).encode() for one in array.ravel()]
    holder = np.empty(len(flat), object)
    holder[:] = flat
    return holder.reshape(array.shape)
