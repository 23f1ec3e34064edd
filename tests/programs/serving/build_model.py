"""Functions that build models for `tfjob export --program`, of the shapes in the checkpoints of export_cases.py."""

import keras


def build():
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, name="layer")], name="reader")


def build_with_options():
    return build(), {"inputs": {"points": ([None, 2], "float64")}, "scale": 2.0, "outputs": "scores"}


def build_wider():
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(4, name="layer")], name="reader")


def build_deeper():
    layers = [keras.layers.Dense(3, name="layer"), keras.layers.Dense(3, name="another")]
    return keras.Sequential([keras.Input((2,)), *layers], name="reader")


def fail():
    raise ValueError("the data is missing")
