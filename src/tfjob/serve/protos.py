"""The messages of TensorFlow Serving, in a pool of their own."""
