"""An instruction that no CPU has."""

import ctypes
import mmap

code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(b"\x0f\x0b" if __import__("platform").machine() == "x86_64" else b"\x00\x00\x00\x00")
ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
