"""Distributed TensorFlow jobs from one TFJob manifest: processes on a laptop, pods on Kubernetes."""

__version__ = "0.1.0"
