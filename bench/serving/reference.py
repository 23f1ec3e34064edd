"""The reference: a server that people write with grpcio, Python's TensorFlow and the public stubs.

python reference.py PORT FOLDER
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

THREADS = 8


class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, folder: str) -> None:
        self.model = tf.saved_model.load(folder)  # which keeps the signatures alive
        self.signature = self.model.signatures["serving_default"]

    def Predict(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        inputs = {alias: tf.constant(tf.make_ndarray(proto)) for alias, proto in request.inputs.items()}
        reply = predict_pb2.PredictResponse()
        reply.model_spec.name = request.model_spec.name
        reply.model_spec.version.value = 1
        for alias, tensor in self.signature(**inputs).items():
            reply.outputs[alias].CopyFrom(tf.make_tensor_proto(tensor.numpy()))
        return reply


if __name__ == "__main__":
    server = grpc.server(ThreadPoolExecutor(THREADS))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Service(sys.argv[2]), server)
    server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}")
    server.start()
    server.wait_for_termination()
