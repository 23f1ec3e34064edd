"""The data of the training."""

import numpy as np


def rows(count):
    found = np.random.default_rng(0).normal(size=(count, 8)).astype("float32")
    return found, found.argmax(axis=1)
