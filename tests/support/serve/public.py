"""TensorFlow Serving's public client: the messages and stubs of tensorflow-serving-api."""

from __future__ import annotations

import functools
import importlib
import warnings
from types import SimpleNamespace
from typing import Any

import grpc

MESSAGES = (
    "tensorflow_serving.apis.classification_pb2",
    "tensorflow_serving.apis.get_model_metadata_pb2",
    "tensorflow_serving.apis.get_model_status_pb2",
    "tensorflow_serving.apis.inference_pb2",
    "tensorflow_serving.apis.model_management_pb2",
    "tensorflow_serving.apis.predict_pb2",
    "tensorflow_serving.apis.prediction_log_pb2",
    "tensorflow_serving.apis.regression_pb2",
)
SERVICES = ("model_service_pb2_grpc", "prediction_service_pb2_grpc")


@functools.cache
def stubs() -> Any:
    """Return everything that the modules have, and TensorFlow as `tf`; the import takes seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tf = importlib.import_module("tensorflow")
        modules = [importlib.import_module(name) for name in MESSAGES]
        modules += [importlib.import_module(f"tensorflow_serving.apis.{name}") for name in SERVICES]
    found = {name: value for module in modules for name, value in vars(module).items() if not name.startswith("_")}
    return SimpleNamespace(**found, tf=tf)


class Client:
    """A client of a model server that uses only the public stubs."""

    def __init__(self, port: int) -> None:
        self.public = stubs()
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.max_receive_message_length", -1)])
        self.prediction = self.public.PredictionServiceStub(self.channel)
        self.models = self.public.ModelServiceStub(self.channel)

    def predict_request(self, model: str, signature: str = "", **inputs: Any) -> Any:
        request = self.public.PredictRequest()
        request.model_spec.name = model
        request.model_spec.signature_name = signature
        for alias, value in inputs.items():
            request.inputs[alias].CopyFrom(self.public.tf.make_tensor_proto(value))
        return request

    def predict(self, model: str, signature: str = "", **inputs: Any) -> dict[str, Any]:
        """Return the outputs as arrays."""
        reply = self.prediction.Predict(self.predict_request(model, signature, **inputs), timeout=60)
        return {alias: self.public.tf.make_ndarray(proto) for alias, proto in reply.outputs.items()}

    def example(self, **features: float) -> Any:
        tf = self.public.tf
        values = {
            name: tf.train.Feature(float_list=tf.train.FloatList(value=[value])) for name, value in features.items()
        }
        return tf.train.Example(features=tf.train.Features(feature=values))
