"""Exports models of many kinds with tfjob.export, and checkpoints of many kinds: one process that imports TensorFlow.

    python export_cases.py FOLDER

`models/NAME` has a version of each model, and `expected.json` what they return for ones. No server can run `trap`.
`checkpoints/KIND` has a checkpoint, `restored/KIND` its export, and `answers.json` what each function of build_model.py
gives with it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
import tf_keras

import tfjob
from tfjob.programs import export_checkpoint

BUILD = Path(__file__).with_name("build_model.py")
FOLDER = Path(sys.argv[1])
EXPECTED: dict[str, object] = {}


def write(name, model, *ones, **options):
    """Export a model, and note what it returns for ones."""
    path = tfjob.export(model, FOLDER / "models" / name, **options)
    assert path == str(FOLDER / "models" / name / "1"), path
    EXPECTED[name] = np.asarray(model(*ones)).tolist() if ones else None


def models():
    layers = [keras.layers.Flatten(), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5)]
    digits = keras.Sequential([keras.Input((4, 4)), *layers, keras.layers.Dense(3, activation="softmax")])
    write("sequential", digits, tf.ones([1, 4, 4]))

    digits.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    digits.fit(np.zeros((64, 4, 4)), np.zeros(64), epochs=1, verbose=0)
    images = {"images": ([None, 4, 4], "uint8")}
    names = ["serving_default", "predict_images"]
    write("scaled", digits, tf.fill([1, 4, 4], 1 / 255), inputs=images, scale=1 / 255, signature=names, outputs=read)

    a, b = keras.Input((3,), name="a"), keras.Input((2,), name="b")
    two = keras.Model([a, b], keras.layers.Dense(4)(keras.layers.Concatenate()([a, b])))
    write("two_inputs", two, [tf.ones([1, 3]), tf.ones([1, 2])])
    renamed = {"left": ([None, 3], "float32"), "right": tf.TensorSpec([None, 2])}
    write("renamed_inputs", two, [tf.ones([1, 3]), tf.ones([1, 2])], inputs=renamed, outputs="sum")

    text = keras.Input((), dtype="string")
    words = keras.layers.TextVectorization(output_sequence_length=2)
    words.adapt(["one two"])
    write("lookup_table", keras.Model(text, keras.layers.Embedding(4, 2)(words(text))), tf.constant(["one two"]))

    write("subclassed", Subclassed(), tf.ones([1, 5]), inputs={"x": ([None, 5], "float32")})
    old = tf_keras.Sequential([tf_keras.layers.Input((4,)), tf_keras.layers.BatchNormalization()])
    write("tf_keras", old, tf.ones([1, 4]))
    weights = tf.Variable([[1.0], [2.0]])
    write("function", lambda x: x @ weights, tf.ones([1, 2]), inputs={"x": ([None, 2], "float32")}, outputs="y", step=9)


def trap():
    """Save a model of Keras in the way that servers cannot run."""
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    serve = tf.function(lambda x: {"y": model(x)}, input_signature=[tf.TensorSpec([None, 4], name="x")])
    tf.saved_model.save(model, str(FOLDER / "trap"), signatures=serve)


class Subclassed(keras.Model):
    """A model whose variables do not exist before it is called."""

    def __init__(self):
        super().__init__()
        self.layer = keras.layers.Dense(2)

    def call(self, x):
        return self.layer(x)


def read(probabilities):
    return {"digits": tf.argmax(probabilities, axis=1), "probabilities": probabilities}


def checkpoints():
    """Write a checkpoint of each kind; all have the same weights."""
    layer = keras.layers.Dense(3, kernel_initializer="ones", name="layer")
    model = keras.Sequential([keras.Input((2,)), layer], name="reader")
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    step = tf.Variable(70, dtype=tf.int64)
    places = {name: FOLDER / "checkpoints" / name for name in ("attribute", "other_name", "root", "names", "keras")}
    for place in places.values():
        place.mkdir(parents=True)
    for name, checkpoint in {
        "attribute": tf.train.Checkpoint(model=model, optimizer=optimizer, step=step),
        "other_name": tf.train.Checkpoint(net=model, optimizer=optimizer),
        "root": tf.train.Checkpoint(model),
    }.items():
        checkpoint.save(str(places[name] / "ckpt"))
    # As TensorFlow 1 writes them.
    values = {one.path: one.numpy() for one in model.variables} | {"global_step": np.int64(80)}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variables = {name: tf.compat.v1.Variable(value, name=name) for name, value in values.items()}
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver(variables).save(session, str(places["names"] / "model.ckpt"), global_step=80)
    model.save_weights(places["keras"] / "last.weights.h5")


def restored():
    """Export every checkpoint with every function that builds a model; return what is printed."""
    found = {}
    for place in sorted((FOLDER / "checkpoints").iterdir()):
        for function in ("build", "build_with_options", "build_wider", "build_deeper"):
            target = FOLDER / "restored" / f"{place.name}-{function}"
            try:
                answer = export_checkpoint.main(f"{BUILD}:{function}", str(place), str(target))
            except export_checkpoint.Problem as problem:
                answer = {"error": str(problem)}
            found[f"{place.name} {function}"] = answer
    return found


if __name__ == "__main__":
    models()
    trap()
    os.environ["TF_CONFIG"] = (
        '{"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "worker", "index": 0}}'
    )
    assert tfjob.export(lambda x: x, FOLDER / "models" / "worker", {"x": ([1], "float32")}) is None
    checkpoints()
    (FOLDER / "expected.json").write_text(json.dumps(EXPECTED))
    (FOLDER / "answers.json").write_text(json.dumps(restored()))
