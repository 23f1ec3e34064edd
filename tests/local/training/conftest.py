"""TensorFlow and the examples for users other than the one who runs the tests."""

from __future__ import annotations

from support.training.fixtures import everyones_examples as everyones_examples
from support.training.fixtures import everyones_tensorflow as everyones_tensorflow
