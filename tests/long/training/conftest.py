"""TensorFlow for other users of this machine, and for the pods of a cluster."""

from __future__ import annotations

from support.training.fixtures import everyones_examples as everyones_examples
from support.training.fixtures import everyones_tensorflow as everyones_tensorflow
from support.training.fixtures import team as team
