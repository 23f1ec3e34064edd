"""The gRPC server: TensorFlow Serving's services, health and reflection.

`Service.handle` is the seam to the transport: a method's name and a serialized message in, a serialized message or
Status out. The rest of this module is how grpcio calls it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from tfjob.errors import UserError
from tfjob.serve import call, protos, tensors
from tfjob.serve.config_files import Tls, models_of
from tfjob.serve.errors import Code, Status, invalid
from tfjob.serve.predict import ModelSpec, Prediction, Predictor, Task
from tfjob.serve.savedmodel import Signature, TensorSpec
from tfjob.serve.warmup import read_examples

PREDICTION = "tensorflow.serving.PredictionService"
MODEL = "tensorflow.serving.ModelService"
HEALTH_NAMES = ("", "ModelService", "PredictionService", MODEL, PREDICTION)
"""The services that Health.Check knows; TensorFlow Serving has those without a package."""
LARGEST_MESSAGE = 2**31 - 1
SIGNATURE_DEF = "signature_def"
OPTIONS = (
    ("grpc.max_receive_message_length", LARGEST_MESSAGE),
    ("grpc.max_send_message_length", LARGEST_MESSAGE),
    ("grpc.so_reuseport", 0),  # or two servers would share a port, and neither would report it
)
STATUS_CODES = {code.value[0]: code for code in grpc.StatusCode}
Handler = Callable[[Any, float | None], Awaitable[Any]]


class Service:
    """The methods of both services, on messages as bytes."""

    def __init__(self, predictor: Predictor, as_content: bool = False) -> None:
        self._predictor = predictor
        self._as_content = as_content
        self._handlers: dict[str, tuple[Any, Handler]] = {
            f"/{PREDICTION}/Predict": (protos.PredictRequest, self._predict),
            f"/{PREDICTION}/Classify": (protos.ClassificationRequest, self._classify),
            f"/{PREDICTION}/Regress": (protos.RegressionRequest, self._regress),
            f"/{PREDICTION}/MultiInference": (protos.MultiInferenceRequest, self._multi_inference),
            f"/{PREDICTION}/GetModelMetadata": (protos.GetModelMetadataRequest, self._metadata),
            f"/{MODEL}/GetModelStatus": (protos.GetModelStatusRequest, self._status),
            f"/{MODEL}/HandleReloadConfigRequest": (protos.ReloadConfigRequest, self._reload),
        }

    @property
    def methods(self) -> list[str]:
        return list(self._handlers)

    async def handle(self, method: str, message: bytes, deadline: float | None) -> bytes:
        """Answer a request; raise Status. `deadline` is in seconds of the event loop's clock."""
        begin = time.perf_counter()
        model, code = "", Code.OK
        try:
            kind, answer = self._handlers[method]
            request = protos.parse(kind, message)
            model = model_of(request)
            content: bytes = (await answer(request, deadline)).SerializeToString()
            return content
        except Status as status:
            code = status.code
            raise
        except asyncio.CancelledError:
            code = Code.CANCELLED
            raise
        except Exception:
            code = Code.INTERNAL
            raise
        finally:
            api = method.rpartition("/")[2]
            self._predictor.metrics.request(model, code.name, api, "GRPC", time.perf_counter() - begin)

    async def _predict(self, request: Any, deadline: float | None) -> Any:
        spec = read_spec(request)
        inputs = {}
        for alias, proto in request.inputs.items():
            try:
                inputs[alias] = tensors.to_array(proto)
            except Status as status:
                raise Status(status.code, f'The input "{alias}": {status.message}') from None
        prediction = await self._predictor.predict(spec, inputs, request.output_filter, deadline)
        reply = protos.PredictResponse()
        write_spec(prediction, reply.model_spec)
        for alias, array in prediction.outputs.items():
            tensors.to_proto(array, reply.outputs[alias], self._as_content)
        return reply

    async def _classify(self, request: Any, deadline: float | None) -> Any:
        spec = read_spec(request)
        prediction = await self._predictor.classify(spec, read_examples(request.input), deadline)
        reply = protos.ClassificationResponse()
        write_spec(prediction, reply.model_spec)
        write_classes(prediction, reply.result)
        return reply

    async def _regress(self, request: Any, deadline: float | None) -> Any:
        spec = read_spec(request)
        prediction = await self._predictor.regress(spec, read_examples(request.input), deadline)
        reply = protos.RegressionResponse()
        write_spec(prediction, reply.model_spec)
        write_values(prediction, reply.result)
        return reply

    async def _multi_inference(self, request: Any, deadline: float | None) -> Any:
        tasks = [Task(read_spec(task), task.method_name) for task in request.tasks]
        predictions = await self._predictor.multi_inference(tasks, read_examples(request.input), deadline)
        reply = protos.MultiInferenceResponse()
        for prediction in predictions:
            result = reply.results.add()
            write_spec(prediction, result.model_spec)
            if call.OUTPUTS in prediction.outputs:
                write_values(prediction, result.regression_result)
            else:
                write_classes(prediction, result.classification_result)
        return reply

    async def _metadata(self, request: Any, _deadline: float | None) -> Any:
        spec = read_spec(request)
        if not request.metadata_field:
            raise invalid("GetModelMetadataRequest must specify at least one metadata_field")
        for name in request.metadata_field:
            if name != SIGNATURE_DEF:
                raise invalid(f"Metadata field {name} is not supported")
        metadata = self._predictor.metadata(spec)
        reply = protos.GetModelMetadataResponse()
        reply.model_spec.name = metadata.name
        reply.model_spec.version.value = metadata.version
        signatures = protos.SignatureDefMap()
        for name, signature in metadata.signatures.items():
            write_signature(signature, signatures.signature_def[name])
        reply.metadata[SIGNATURE_DEF].Pack(signatures)
        return reply

    async def _status(self, request: Any, _deadline: float | None) -> Any:
        spec = read_spec(request)
        reply = protos.GetModelStatusResponse()
        for row in self._predictor.status(spec):
            reply.model_version_status.add(
                version=row.version,
                state=int(row.state),
                status={"error_code": row.code.number, "error_message": row.message},
            )
        return reply

    async def _reload(self, request: Any, _deadline: float | None) -> Any:
        kind = request.config.WhichOneof("config")
        if kind != "model_config_list":
            given = kind or "no configuration"
            raise Status(
                Code.FAILED_PRECONDITION,
                f"Cannot transition from model_config_list to {given}: send a model_config_list.",
            )
        try:
            configs, _warnings = models_of(request.config)
        except ValueError as error:
            raise invalid(f"{error}") from None
        await self._predictor.reload(configs)
        reply = protos.ReloadConfigResponse()
        reply.status.SetInParent()
        return reply


# --- messages ---


def model_of(request: Any) -> str:
    """Return the name of the model that metrics count a request under."""
    first = request.tasks[0] if getattr(request, "tasks", ()) else request
    name: str = first.model_spec.name if hasattr(first, "model_spec") else ""
    return name


def read_spec(request: Any) -> ModelSpec:
    """Return the ModelSpec of a request or task; raise Status if there is none."""
    if not request.HasField("model_spec"):
        raise invalid("Missing ModelSpec")
    spec = request.model_spec
    return ModelSpec(
        name=spec.name,
        version=spec.version.value if spec.HasField("version") else None,
        label=spec.version_label,
        signature=spec.signature_name,
    )


def write_spec(prediction: Prediction, proto: Any) -> None:
    proto.name = prediction.name
    proto.version.value = prediction.version
    proto.signature_name = prediction.signature


def write_classes(prediction: Prediction, proto: Any) -> None:
    """Write the classes of each example: labels, scores or both."""
    labels, scores = (prediction.outputs.get(alias) for alias in (call.CLASSES, call.SCORES))
    for row in range(len(labels if labels is not None else scores if scores is not None else ())):
        classes = proto.classifications.add().classes
        columns = labels.shape[1] if labels is not None else scores.shape[1] if scores is not None else 0
        for column in range(columns):
            one = classes.add()
            if labels is not None:
                one.label = labels[row, column].decode(errors="replace")
            if scores is not None:
                one.score = scores[row, column]


def write_values(prediction: Prediction, proto: Any) -> None:
    for value in prediction.outputs[call.OUTPUTS].tolist():
        proto.regressions.add().value = value


def write_signature(signature: Signature, proto: Any) -> None:
    """Write a SignatureDef."""
    proto.method_name = signature.method_name
    for specs, infos in ((signature.inputs, proto.inputs), (signature.outputs, proto.outputs)):
        for alias, spec in specs.items():
            _write_info(spec, infos[alias])
    for alias, value in signature.defaults.items():
        proto.defaults[alias].ParseFromString(value)


def _write_info(spec: TensorSpec, proto: Any) -> None:
    proto.name = spec.name
    proto.dtype = protos.DATA_TYPES.get(spec.dtype, 0)
    proto.tensor_shape.SetInParent()
    if spec.shape is None:
        proto.tensor_shape.unknown_rank = True
    for size in spec.shape or ():
        proto.tensor_shape.dim.add().size = -1 if size is None else size


# --- the transport ---


@dataclass(frozen=True)
class Listening:
    """Where the server listens: `127.0.0.1:8500`, `unix:/run/serve.sock`; TLS applies to addresses with a port."""

    addresses: Sequence[str]
    tls: Tls | None = None
    arguments: Sequence[tuple[str, int | str]] = ()


class GrpcServer:
    """A running server: `ports` has the port of each address."""

    def __init__(self, server: grpc.aio.Server, ports: list[int], checks: health.aio.HealthServicer) -> None:
        self._server = server
        self._health = checks
        self.ports = ports

    async def set_ready(self, is_ready: bool) -> None:
        """Let Health report whether requests are answered."""
        state = health_pb2.HealthCheckResponse.SERVING if is_ready else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in HEALTH_NAMES:
            await self._health.set(name, state)

    async def stop(self, grace: float) -> None:
        """Report not ready, accept nothing more, and give running requests some seconds."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace)


async def start(service: Service, listening: Listening) -> GrpcServer:
    """Start the server; raise UserError if an address cannot be used."""
    options: dict[str, int | str] = {**dict(OPTIONS), **dict(listening.arguments)}  # of two with a name, one is ignored
    server = grpc.aio.server(options=list(options.items()))
    server.add_generic_rpc_handlers((_Handlers(service),))
    checks = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    reflected = _reflected_pool()
    names = (PREDICTION, MODEL, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server, pool=reflected)
    ports = []
    for address in listening.addresses:
        try:
            if listening.tls is not None and not address.startswith("unix:"):
                ports.append(server.add_secure_port(address, _credentials(listening.tls)))
            else:
                ports.append(server.add_insecure_port(address))
        except RuntimeError:
            raise UserError(f"the server cannot listen on {address}", "Is another server using the port?") from None
    await server.start()
    running = GrpcServer(server, ports, checks)
    await running.set_ready(False)
    return running


class _Handlers(grpc.GenericRpcHandler):
    """Finds the handler of a method, for messages as bytes."""

    def __init__(self, service: Service) -> None:
        self._handlers = {method: self._handler(service, method) for method in service.methods}

    def service(self, details: Any) -> Any:
        return self._handlers.get(details.method)

    @staticmethod
    def _handler(service: Service, method: str) -> Any:
        async def answer(message: bytes, context: Any) -> bytes:
            left = context.time_remaining()
            deadline = None if left is None else asyncio.get_running_loop().time() + left
            try:
                return await service.handle(method, message, deadline)
            except Status as status:
                return await _abort(context, status)

        return grpc.unary_unary_rpc_method_handler(answer)


async def _abort(context: Any, status: Status) -> bytes:
    try:
        await context.abort(STATUS_CODES[status.code.number], status.message)
    except grpc.aio.AbortError:
        raise
    except Exception:
        # The client is gone, for example because its deadline is over; grpcio would log a traceback.
        raise asyncio.CancelledError from None
    raise AssertionError("abort raises")


def _credentials(tls: Tls) -> Any:
    return grpc.ssl_server_credentials(
        [(tls.server_key.encode(), tls.server_cert.encode())],
        tls.custom_ca.encode() or None,
        tls.client_verify,
    )


def _reflected_pool() -> Any:
    """Return a pool with the messages as declared and those of the two services of grpcio."""
    pool = protos.PLAIN
    for module in (health_pb2, reflection_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    return pool
