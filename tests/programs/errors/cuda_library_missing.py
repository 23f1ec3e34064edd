"""A package that loads a library of CUDA."""

import ctypes

ctypes.CDLL("libcudart.so.12")
