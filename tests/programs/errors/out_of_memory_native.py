"""Native code that requests more memory than there is."""

import ctypes

new = ctypes.CDLL("libstdc++.so.6")["_Znwm"]  # operator new
new.argtypes = [ctypes.c_size_t]
new(1 << 62)
