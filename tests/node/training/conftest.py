"""A namespace whose pods can have TensorFlow, and an operator."""

from __future__ import annotations

from support.training.fixtures import team as team
