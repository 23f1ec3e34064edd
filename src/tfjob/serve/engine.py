"""TensorFlow's C library through ctypes: load a SavedModel, run it, close it."""
