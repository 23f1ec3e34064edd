"""TensorFlow's C library through ctypes: load a SavedModel, run it, close it. No other module calls C.

Python's TensorFlow is not imported: that takes seconds of CPU and 145 MB more, and its calls cost twice as much.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tfjob.errors import UserError
from tfjob.serve import protos
from tfjob.serve.errors import BY_NUMBER, Code, Status, invalid
from tfjob.serve.tensors import NUMPY, STRING, Array

LIBRARIES = ("libtensorflow_cc", "libtensorflow_framework")
STRING_SIZE = 24
"""Bytes of a TF_TString."""
MOST_PLANS = 1000
"""Sets of inputs and outputs that are prepared; clients choose the outputs."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT, MAPPED = 256 << 20, 32 << 20
"""Freed bytes that the process keeps for the next run, and the size of blocks that it gives back at once."""


class Engine(Protocol):
    """What runs a model. `run` may be called by several threads at once; nothing may run when `close` is called."""

    def run(self, feeds: Mapping[str, Array], fetches: Sequence[str]) -> list[Array]:
        """Feed tensors by their names in the graph and return others; raise Status."""

    def close(self) -> None:
        """Free the model's memory."""


class MissingTensorFlow(UserError):
    """The library that runs models is not installed, or does not have what the server calls."""

    advice = "install it with: pip install 'tfjob[serve,tensorflow]'"


class _Output(ctypes.Structure):
    _fields_ = [("operation", c_void_p), ("index", c_int)]


_TENSORS = POINTER(_Output), POINTER(c_void_p), c_int
_LONG_CALLS: dict[str, tuple[Any, ...]] = {
    "TF_LoadSessionFromSavedModel": (c_void_p, *[c_void_p] * 2, c_char_p, POINTER(c_char_p), c_int, *[c_void_p] * 3),
    "TF_SessionRun": (None, *[c_void_p] * 2, *_TENSORS, *_TENSORS, POINTER(c_void_p), c_int, *[c_void_p] * 2),
    "TF_CloseSession": (None, c_void_p, c_void_p),
    "TF_DeleteSession": (None, c_void_p, c_void_p),
    "TF_DeleteGraph": (None, c_void_p),
}
"""The result and the arguments of each function; other threads run during these."""
_SHORT_CALLS: dict[str, tuple[Any, ...]] = {
    "TF_NewStatus": (c_void_p,),
    "TF_DeleteStatus": (None, c_void_p),
    "TF_GetCode": (c_int, c_void_p),
    "TF_Message": (c_char_p, c_void_p),
    "TF_NewSessionOptions": (c_void_p,),
    "TF_SetConfig": (None, c_void_p, c_char_p, c_size_t, c_void_p),
    "TF_DeleteSessionOptions": (None, c_void_p),
    "TF_NewGraph": (c_void_p,),
    "TF_GraphOperationByName": (c_void_p, c_void_p, c_char_p),
    "TF_OperationNumOutputs": (c_int, c_void_p),
    "TF_AllocateTensor": (c_void_p, c_int, POINTER(c_int64), c_int, c_size_t),
    "TF_DeleteTensor": (None, c_void_p),
    "TF_TensorData": (c_void_p, c_void_p),
    "TF_TensorByteSize": (c_size_t, c_void_p),
    "TF_NumDims": (c_int, c_void_p),
    "TF_Dim": (c_int64, c_void_p, c_int),
    "TF_TensorType": (c_int, c_void_p),
    "TF_StringInit": (None, c_void_p),
    "TF_StringCopy": (None, c_void_p, c_char_p, c_size_t),
    "TF_StringGetDataPointer": (c_void_p, c_void_p),
    "TF_StringGetSize": (c_size_t, c_void_p),
    "TF_StringDealloc": (None, c_void_p),
}
"""Functions that are faster than giving other threads a turn, and waiting for one's own."""


@functools.cache
def _library() -> Any:
    """Return TensorFlow's C functions, without the prefix `TF_`; raise MissingTensorFlow."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # a warning for each bad request would fill the log
    spec = importlib.util.find_spec("tensorflow")
    folder = Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None
    if folder is None:
        raise MissingTensorFlow("A model needs TensorFlow's libraries, but TensorFlow is not installed.")
    # The pool of oneDNN, the default, would never give the memory of a closed model back.
    os.environ.setdefault("TF_ONEDNN_USE_SYSTEM_ALLOCATOR", "1")
    _keep_freed(KEPT)
    # Not RTLD_GLOBAL: the OpenSSL of TensorFlow would replace Python's and crash the process.
    paths = [path for stem in LIBRARIES for path in sorted(folder.glob(f"{stem}.*"))[:1]]
    functions: dict[str, Any] = {}
    for kind, calls in ((ctypes.CDLL, _LONG_CALLS), (ctypes.PyDLL, _SHORT_CALLS)):
        libraries = [kind(str(path), mode=ctypes.RTLD_LOCAL) for path in paths]
        for name, (result, *arguments) in calls.items():
            function = next((getattr(one, name) for one in libraries if hasattr(one, name)), None)
            if function is None:
                raise MissingTensorFlow(f"The TensorFlow in {folder} has no {name} in {paths or 'any library'}.")
            function.restype, function.argtypes = result, arguments
            functions[name.removeprefix("TF_")] = function
    return type("Library", (), {name: staticmethod(function) for name, function in functions.items()})


class _Session:
    """A SavedModel in a session of TensorFlow."""

    def __init__(self, folder: Path, tags: Sequence[str], session_config: bytes) -> None:
        tf = self._tf = _library()
        self._plans: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[Any, Any]] = {}
        self._graph = tf.NewGraph()
        options = tf.NewSessionOptions()
        names = (c_char_p * len(tags))(*[tag.encode() for tag in tags])
        try:
            if session_config:
                self._checked(tf.SetConfig, options, session_config, len(session_config))
            # No buffer for the meta graph: savedmodel.py reads signatures from the file.
            self._session = self._checked(
                tf.LoadSessionFromSavedModel, options, None, os.fsencode(folder), names, len(tags), self._graph, None
            )
        except Status:
            tf.DeleteGraph(self._graph)
            raise
        finally:
            tf.DeleteSessionOptions(options)

    def run(self, feeds: Mapping[str, Array], fetches: Sequence[str]) -> list[Array]:
        tf = self._tf
        key = (tuple(feeds), tuple(fetches))
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) == MOST_PLANS:
                self._plans.clear()
            plan = self._plans[key] = (self._outputs(key[0]), self._outputs(key[1]))
        given, found = (c_void_p * len(feeds))(), (c_void_p * len(fetches))()
        try:
            for place, array in enumerate(feeds.values()):
                given[place] = self._tensor(array)
            ends = (plan[0], given, len(feeds)), (plan[1], found, len(fetches))
            self._checked(tf.SessionRun, self._session, None, *ends[0], *ends[1], None, 0, None)
            return [self._array(tensor) for tensor in found if tensor]
        finally:
            for tensor in given:
                self._free(tensor)
            for tensor in found:
                tf.DeleteTensor(tensor)

    def close(self) -> None:
        _keep_freed(0)
        for function in (self._tf.CloseSession, self._tf.DeleteSession):
            self._checked(function, self._session)
        self._tf.DeleteGraph(self._graph)
        return_memory()
        _keep_freed(KEPT)

    def _checked(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function whose last argument is a status, and raise that."""
        tf = self._tf
        status = tf.NewStatus()
        try:
            result = function(*arguments, status)
            if code := tf.GetCode(status):
                raise Status(BY_NUMBER.get(code, Code.UNKNOWN), tf.Message(status).decode(errors="replace"))
            return result
        finally:
            tf.DeleteStatus(status)

    def _outputs(self, names: Sequence[str]) -> Any:
        """Find tensors by names such as `Identity:0` in the graph."""
        outputs = (_Output * len(names))()
        for place, name in enumerate(names):
            operation, _, index = name.partition(":")
            pointer = self._tf.GraphOperationByName(self._graph, operation.encode())
            if not pointer or int(index or 0) >= self._tf.OperationNumOutputs(pointer):
                raise invalid(f"The signature names the tensor {name}, which is not in the graph.")
            outputs[place] = _Output(pointer, int(index or 0))
        return outputs

    def _tensor(self, array: Array) -> int:
        """Copy an array into a tensor: kernels may keep a tensor for longer than the call."""
        tf = self._tf
        dims = (c_int64 * array.ndim)(*array.shape)
        size = STRING_SIZE * array.size if array.dtype.hasobject else array.nbytes
        tensor: int = tf.AllocateTensor(_NUMBERS[array.dtype], dims, array.ndim, size)
        data = tf.TensorData(tensor)
        if array.dtype.hasobject:
            for place, value in enumerate(array.ravel().tolist()):
                tf.StringInit(data + place * STRING_SIZE)
                tf.StringCopy(data + place * STRING_SIZE, value, len(value))
        elif size:
            # Not numpy.ascontiguousarray, which turns a scalar into an array of one element.
            whole = array if array.flags.c_contiguous else array.copy()
            ctypes.memmove(data, whole.ctypes.data, size)
        return tensor

    def _free(self, tensor: int | None) -> None:
        """Delete a tensor of ours; TensorFlow does not free the strings of one that it has not made."""
        tf = self._tf
        if tensor and tf.TensorType(tensor) == _STRING_NUMBER:
            data = tf.TensorData(tensor)
            for place in range(tf.TensorByteSize(tensor) // STRING_SIZE):
                tf.StringDealloc(data + place * STRING_SIZE)
        tf.DeleteTensor(tensor)  # which accepts a null pointer

    def _array(self, tensor: int) -> Array:
        tf = self._tf
        shape = [tf.Dim(tensor, axis) for axis in range(tf.NumDims(tensor))]
        number, data, size = tf.TensorType(tensor), tf.TensorData(tensor), tf.TensorByteSize(tensor)
        if number == _STRING_NUMBER:
            places = range(data, data + size, STRING_SIZE) if size else ()
            values = np.empty(len(places), object)
            values[:] = [ctypes.string_at(tf.StringGetDataPointer(at), tf.StringGetSize(at)) for at in places]
            return values.reshape(shape)
        dtype = _TYPES.get(number)
        if dtype is None:
            raise invalid(f"The output type {protos.DATA_TYPE_NAMES.get(number, number)} is not supported.")
        return np.frombuffer(ctypes.string_at(data, size), dtype).reshape(shape)


_TYPES = {protos.DATA_TYPES[name]: dtype for name, dtype in NUMPY.items()}
_NUMBERS = {dtype: number for number, dtype in _TYPES.items()}
_STRING_NUMBER = protos.DATA_TYPES[STRING]


def load(folder: Path, tags: Sequence[str] = ("serve",), session_config: bytes = b"") -> Engine:
    """Load a SavedModel; `session_config` is a serialized ConfigProto. Raise Status or MissingTensorFlow."""
    return _Session(folder, tags, session_config)


def return_memory() -> None:
    """Give memory that was freed back to the system, where the C library can (glibc)."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


def _keep_freed(size: int) -> None:
    """Let the C library keep so many freed bytes of each of its arenas, which `malloc_trim` alone does not change."""
    if set_option := getattr(ctypes.CDLL(None), "mallopt", None):
        set_option(M_MMAP_THRESHOLD, MAPPED)
        set_option(M_TRIM_THRESHOLD, size)
