"""A TensorFlow server on a port that another socket has."""

import socket

import tensorflow as tf

listener = socket.create_server(("", 0))
port = listener.getsockname()[1]
tf.distribute.Server({"worker": [f"127.0.0.1:{port}"]}, job_name="worker", task_index=0)
