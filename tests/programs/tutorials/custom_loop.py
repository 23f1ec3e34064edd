"""A custom training loop on several workers, as TensorFlow's tutorial shows it."""

import json
import os

import numpy as np
import tensorflow as tf

BATCH, EPOCHS, STEPS = 64, 3, 16
task = json.loads(os.environ["TF_CONFIG"])["task"]
strategy = tf.distribute.MultiWorkerMirroredStrategy()
rows = np.random.default_rng(0).normal(size=(1024, 8)).astype("float32")
data = tf.data.Dataset.from_tensor_slices((rows, rows.argmax(axis=1))).shuffle(1024).repeat().batch(BATCH)

with strategy.scope():
    data = strategy.experimental_distribute_dataset(data)
    model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(32, activation="relu")])
    model.add(tf.keras.layers.Dense(8))
    optimizer = tf.keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)
    accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name="accuracy")
    epoch = tf.Variable(0, trainable=False)

checkpoint = tf.train.Checkpoint(model=model, epoch=epoch)
folder = os.environ.get("TFJOB_CHECKPOINT_DIR", "/tmp/checkpoints")
if task["index"] > 0:
    folder = os.path.join(os.environ.get("TFJOB_SCRATCH_DIR", "/tmp/scratch"), "checkpoints")
manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=1)


@tf.function
def train_step(iterator):
    def step(inputs):
        images, labels = inputs
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            each = tf.keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
            loss = tf.nn.compute_average_loss(each, global_batch_size=BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        accuracy.update_state(labels, logits)
        return loss

    return strategy.reduce("SUM", strategy.run(step, args=(next(iterator),)), axis=None)


losses = []
iterator = iter(data)
while epoch.numpy() < EPOCHS:
    losses.append(sum(float(train_step(iterator)) for _ in range(STEPS)) / STEPS)
    epoch.assign_add(1)
    manager.save()
    print("Epoch: %d, accuracy: %f, train_loss: %f." % (epoch.numpy(), accuracy.result(), losses[-1]))  # noqa: UP031
    accuracy.reset_state()
print("losses", losses)
