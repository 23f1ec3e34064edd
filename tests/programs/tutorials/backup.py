"""Keras `fit` with BackupAndRestore, in a process that ends as if killed once, at the beginning of its third epoch."""

import os
import signal
from pathlib import Path

import numpy as np
import tensorflow as tf

CHECKPOINTS = Path(os.environ["TFJOB_CHECKPOINT_DIR"])
rows = np.random.default_rng(0).normal(size=(1024, 8)).astype("float32")
model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(8)])
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])


class KilledOnce(tf.keras.callbacks.Callback):
    """Stands for a machine that takes the process away."""

    def on_epoch_begin(self, epoch, logs=None):
        mark = CHECKPOINTS / "killed"
        if epoch == 2 and not mark.exists():
            mark.touch()
            os._exit(128 + signal.SIGKILL)  # in a pod, process 1 cannot send this signal to itself


callbacks = [tf.keras.callbacks.BackupAndRestore(CHECKPOINTS / "backup"), KilledOnce()]
history = model.fit(rows, rows.argmax(axis=1), epochs=4, callbacks=callbacks)
print("losses", history.history["loss"])
print("epochs", history.epoch)
