"""tf.data service: the workers prepare the data of the chief, and the parameter server dispatches it."""

import json
import os

import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
cluster, task = config["cluster"], config["task"]
service = tf.data.experimental.service
dispatcher = cluster["ps"][0]
if task["type"] != "chief":
    address = cluster[task["type"]][task["index"]]
    port = int(address.rpartition(":")[2])
    if task["type"] == "ps":
        server = service.DispatchServer(service.DispatcherConfig(port=port))
    else:
        server = service.WorkerServer(
            service.WorkerConfig(dispatcher_address=dispatcher, worker_address=address, port=port)
        )
    server.join()


def slow(number):
    """Stand for the preparation of an image."""
    row = tf.random.stateless_normal((8,), (number, 1))
    return row, tf.argmax(row)


data = tf.data.Dataset.range(1024).map(slow).batch(32)
data = data.apply(service.distribute(processing_mode=service.ShardingPolicy.DYNAMIC, service=f"grpc://{dispatcher}"))
model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(8)])
model.compile(optimizer="adam", loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
print("rows", sum(int(labels.shape[0]) for _, labels in data))
history = model.fit(data, epochs=3)
print("losses", history.history["loss"])
