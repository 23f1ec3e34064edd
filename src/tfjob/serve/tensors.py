"""TensorProtos from and to numpy arrays."""
