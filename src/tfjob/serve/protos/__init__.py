"""The messages of TensorFlow Serving, in private descriptor pools.

`tools/protos.py` compiles the .proto files next to this module to `messages.binpb`. They are not in the default pool,
because a process that also imports TensorFlow would have two definitions of one message there.

There are two pools. In `PLAIN`, every field is as declared: reflection shows it. In `POOL`, which the server uses, the
fields `float_val` and `double_val` are bytes: packed numbers have the same form on the wire, numpy reads and writes
them without a loop, and old versions of protobuf need a hundred times as long for lists of numbers. A client that does
not pack its numbers is seen by their absence: read its request again with `plain`.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from tfjob.serve.errors import invalid

AS_BYTES = ("float_val", "double_val")


def _pool(as_bytes: tuple[str, ...]) -> descriptor_pool.DescriptorPool:
    files_set = descriptor_pb2.FileDescriptorSet.FromString(files(__name__).joinpath("messages.binpb").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files_set.file:
        for message in file.message_type:
            for field in message.field if message.name == "TensorProto" else ():
                if field.name in as_bytes:
                    field.type = field.TYPE_BYTES
        pool.Add(file)
    return pool


POOL = _pool(AS_BYTES)
PLAIN = _pool(())


def _message(name: str, pool: descriptor_pool.DescriptorPool = POOL) -> Any:
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def plain(message: Any) -> Any:
    """Return the class of a message with all fields as declared, for its class with packed numbers as bytes."""
    return _message(message.DESCRIPTOR.full_name, PLAIN)


def parse(message: Any, data: bytes) -> Any:
    """Read a message; raise Status if the bytes are none."""
    try:
        return message.FromString(data)
    except DecodeError:
        raise invalid(f"The request is not a valid {message.DESCRIPTOR.name} message.") from None


TensorProto = _message("tensorflow.TensorProto")
TensorShapeProto = _message("tensorflow.TensorShapeProto")
Example = _message("tensorflow.Example")
SavedModel = _message("tensorflow.SavedModel")
SignatureDef = _message("tensorflow.SignatureDef")
ConfigProto = _message("tensorflow.ConfigProto")

ModelSpec = _message("tensorflow.serving.ModelSpec")
PredictRequest = _message("tensorflow.serving.PredictRequest")
PredictResponse = _message("tensorflow.serving.PredictResponse")
ClassificationRequest = _message("tensorflow.serving.ClassificationRequest")
ClassificationResponse = _message("tensorflow.serving.ClassificationResponse")
ClassificationResult = _message("tensorflow.serving.ClassificationResult")
RegressionRequest = _message("tensorflow.serving.RegressionRequest")
RegressionResponse = _message("tensorflow.serving.RegressionResponse")
RegressionResult = _message("tensorflow.serving.RegressionResult")
MultiInferenceRequest = _message("tensorflow.serving.MultiInferenceRequest")
MultiInferenceResponse = _message("tensorflow.serving.MultiInferenceResponse")
GetModelMetadataRequest = _message("tensorflow.serving.GetModelMetadataRequest")
GetModelMetadataResponse = _message("tensorflow.serving.GetModelMetadataResponse")
SignatureDefMap = _message("tensorflow.serving.SignatureDefMap")
GetModelStatusRequest = _message("tensorflow.serving.GetModelStatusRequest")
GetModelStatusResponse = _message("tensorflow.serving.GetModelStatusResponse")
ReloadConfigRequest = _message("tensorflow.serving.ReloadConfigRequest")
ReloadConfigResponse = _message("tensorflow.serving.ReloadConfigResponse")
PredictionLog = _message("tensorflow.serving.PredictionLog")

ModelServerConfig = _message("tensorflow.serving.ModelServerConfig")
BatchingParameters = _message("tensorflow.serving.BatchingParameters")
MonitoringConfig = _message("tensorflow.serving.MonitoringConfig")
SSLConfig = _message("tensorflow.serving.SSLConfig")

DATA_TYPES: dict[str, int] = {
    name: value.number for name, value in POOL.FindEnumTypeByName("tensorflow.DataType").values_by_name.items()
}
DATA_TYPE_NAMES = {number: name for name, number in DATA_TYPES.items()}
