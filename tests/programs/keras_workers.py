"""A training in the style of TensorFlow's tutorial for several workers: Keras `fit` under MultiWorkerMirroredStrategy.

Without TF_CONFIG it trains alone. Each argument is a part to run, and each part prints its result as a line of JSON:

    fit        `fit` with validation data and callbacks, then `evaluate` and `predict`
    loop       the same training as a custom loop
    backup     the training of `fit` with BackupAndRestore; waits before epoch 2 until the file `go` exists
    weighted   `fit` with class weights and sample weights, and training on single batches
    normalized `fit` with BatchNormalization
    lopsided   `fit` with BackupAndRestore on the first worker only
    refused    models that several workers would train differently from one
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import keras
import numpy as np
import tensorflow as tf

EPOCHS, BATCH = 4, 48
RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(240, 6, 6, 1)).astype("float32")
LABELS = np.abs(IMAGES[:, 2, 2:5, 0]).argmax(axis=1)
has_peers = "TF_CONFIG" in os.environ
strategy = tf.distribute.MultiWorkerMirroredStrategy() if has_peers else tf.distribute.get_strategy()


def dataset(images: Any = IMAGES, labels: Any = LABELS) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((images, labels)).batch(BATCH)


def build(**options: Any) -> keras.Model:
    keras.utils.set_random_seed(7)
    model = keras.Sequential(
        [
            keras.Input((6, 6, 1)),
            keras.layers.Conv2D(8, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(16, activation="relu"),
            keras.layers.Dense(3),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss=loss, metrics=["accuracy"], **options)
    return model


def learning_rate(epoch: int) -> float:
    return 0.01 / (1 + epoch)


def report(part: str, model: keras.Model, **result: Any) -> None:
    weights = [float(np.abs(weight).sum()) for weight in model.get_weights()]
    print(json.dumps({"part": part, "weights": weights, **result}), flush=True)


def fit() -> None:
    with strategy.scope():
        model = build()
    callbacks = [
        keras.callbacks.LearningRateScheduler(learning_rate),
        keras.callbacks.EarlyStopping(monitor="val_loss", patience=EPOCHS),
        keras.callbacks.TerminateOnNaN(),
    ]
    held_out = dataset(IMAGES[:96], LABELS[:96])
    history = model.fit(dataset(), epochs=EPOCHS, validation_data=held_out, callbacks=callbacks, verbose=2).history
    report(
        "fit",
        model,
        loss=history["loss"],
        accuracy=history["accuracy"],
        val_loss=history["val_loss"],
        evaluated=model.evaluate(dataset(), verbose=0),
        predicted=model.predict(dataset(IMAGES[:100], LABELS[:100]), verbose=0)[::9].tolist(),
    )


def loop() -> None:
    """Train without `fit`, as the tutorial for custom loops does."""
    with strategy.scope():
        model = build()
        optimizer = model.optimizer
        optimizer.build(model.trainable_variables)
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def step(batch: Any) -> Any:
        images, labels = batch
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(loss_of(labels, model(images, training=True)), global_batch_size=BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def train(batch: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(step, args=(batch,)), axis=None)

    batches = strategy.experimental_distribute_dataset(dataset()) if has_peers else dataset()
    losses = []
    for epoch in range(EPOCHS):
        optimizer.learning_rate.assign(learning_rate(epoch))
        losses.append(float(np.mean([float(train(batch)) for batch in batches])))
    report("loop", model, loss=losses)


class Gate(keras.callbacks.Callback):
    """Print each epoch, and wait before epoch 2 until the file `go` exists."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        print(f"epoch {epoch} begins", flush=True)
        while epoch == 2 and not os.path.exists("go"):
            time.sleep(0.05)


def backup() -> None:
    with strategy.scope():
        model = build()
    callbacks = [
        keras.callbacks.LearningRateScheduler(learning_rate),
        keras.callbacks.BackupAndRestore("backup"),
        Gate(),
    ]
    history = model.fit(dataset(), epochs=EPOCHS, callbacks=callbacks, verbose=0).history
    report("backup", model, loss=history["loss"])


def weighted() -> None:
    with strategy.scope():
        model = build()
    heavier = np.linspace(0.5, 1.5, len(LABELS), dtype="float32")
    rows = tf.data.Dataset.from_tensor_slices((IMAGES, LABELS, heavier)).batch(BATCH)
    by_row = model.fit(rows, epochs=2, verbose=0).history["loss"]
    by_class = model.fit(dataset(), epochs=2, class_weight={0: 1.0, 1: 2.0, 2: 0.5}, verbose=0).history["loss"]
    batch = IMAGES[:BATCH], LABELS[:BATCH]
    on_batch = [model.train_on_batch(*batch), model.test_on_batch(*batch)]
    report("weighted", model, loss=by_row + by_class, on_batch=[[float(one) for one in pair] for pair in on_batch])


def normalized() -> None:
    keras.utils.set_random_seed(7)
    with strategy.scope():
        layers = [keras.Input((6, 6, 1)), keras.layers.Flatten(), keras.layers.BatchNormalization()]
        model = keras.Sequential([*layers, keras.layers.Dense(3)])
        model.compile(optimizer="sgd", loss=LOSS(from_logits=True))
    model.fit(dataset(), epochs=2, verbose=0)
    report("normalized", model)


def lopsided() -> None:
    with strategy.scope():
        model = build()
    is_first = json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0
    model.fit(dataset(), verbose=0, callbacks=[keras.callbacks.BackupAndRestore("backup")] if is_first else [])


def refused() -> None:
    for name, case in CASES.items():
        try:
            case()
        except RuntimeError as error:
            print(json.dumps({"part": "refused", "case": name, "error": str(error)}), flush=True)
        else:
            sys.exit(f"{name} was not refused")


LOSS = keras.losses.SparseCategoricalCrossentropy
OUTSIDE = {"optimizer": keras.optimizers.SGD, "metrics": lambda: [keras.metrics.SparseTopKCategoricalAccuracy(2)]}


def unsharded() -> tf.data.Dataset:
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return dataset().with_options(options)


def built() -> keras.Model:
    with strategy.scope():
        return build()


def train(outside: str = "", sgd: dict[str, Any] | None = None, **options: Any) -> None:
    """Train a model with other options; `outside` is one of OUTSIDE, created outside the scope."""
    given = {outside: OUTSIDE[outside]()} if outside else {}
    with strategy.scope():
        model = keras.Sequential([keras.Input((6, 6, 1)), keras.layers.Flatten(), keras.layers.Dense(3)])
        optimizer = keras.optimizers.SGD(**(sgd or {}))
        model.compile(**{"optimizer": optimizer, "loss": LOSS(from_logits=True), **given, **options})
    model.fit(dataset(), verbose=0)


CASES = {
    "optimizer outside": lambda: train("optimizer"),
    "metric outside": lambda: train("metrics"),
    "jit_compile": lambda: train(jit_compile=True),
    "steps_per_execution": lambda: train(steps_per_execution=2),
    "clipnorm": lambda: train(sgd={"clipnorm": 1.0}),
    "accumulation": lambda: train(sgd={"gradient_accumulation_steps": 2}),
    "averages": lambda: train(sgd={"use_ema": True, "ema_overwrite_frequency": 3}),
    "weighted mean": lambda: train(loss=LOSS(from_logits=True, reduction="mean_with_sample_weight")),
    "fit unsharded": lambda: built().fit(unsharded(), verbose=0),
    "predict unsharded": lambda: built().predict(unsharded(), verbose=0),
    "predict_on_batch": lambda: built().predict_on_batch(IMAGES[:BATCH]),
}
PARTS = {
    "fit": fit,
    "loop": loop,
    "backup": backup,
    "weighted": weighted,
    "normalized": normalized,
    "lopsided": lopsided,
    "refused": refused,
}
for argument in sys.argv[1:]:
    PARTS[argument]()
sys.stdout.flush()
os._exit(0)  # TensorFlow's servers may take seconds to end
