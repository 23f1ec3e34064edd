"""Decide whether a replica may be forked from a process that has imported TensorFlow, or why it starts cold.

A fork skips the import, but must not change what the program does. Commands that this policy does not know start cold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

SET_AFTER_THE_FORK = frozenset(
    {"TF_CONFIG", "CUDA_VISIBLE_DEVICES", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"}
)
"""TensorFlow reads these variables when it is first used, not when it is imported."""
READ_AT_IMPORT = frozenset(
    {
        *("HOME", "TMPDIR", "TMP", "TEMP", "LANG", "LANGUAGE", "TZ", "TZDIR", "PY_SAX_PARSER"),
        *("ENABLE_RUNTIME_UPTIME_TELEMETRY", "TEMPORARILY_DISABLE_PROTOBUF_VERSION_CHECK"),
    }
)
READ_AT_IMPORT_PREFIXES = (
    *("PYTHON", "LD_", "LC_", "GLIBC_", "MALLOC_", "TCMALLOC_", "GCONV_", "LOCPATH"),
    *("TF_", "TF2_", "TFE_", "TENSORFLOW_", "XLA_", "MLIR_", "TPU_", "KERAS_", "TORCH_", "JAX_"),
    *("CUDA_", "NVIDIA_", "NCCL_", "HIP_", "ROCM_", "ROCR_"),
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "GOTO_", "BLIS_", "VECLIB_", "NUMEXPR_", "NPY_", "NUMPY_"),
    *("DNNL_", "ONEDNN_", "EIGEN_", "GRPC_", "ABSL_", "GLOG_", "PROTOCOL_BUFFERS_", "HDF5_", "H5PY_"),
    *("GCS_", "GFORTRAN_", "LLVM_", "OPENSSL_", "SSL_", "DISABLE_HOST_SEND_RECV_REGISTRATION", "__PYVENV"),
    *("PILLOW_", "PSUTIL_", "WRAPT_", "TEST_", "_PYTHON"),
)
"""The variables that the interpreter, the dynamic loader, TensorFlow and its libraries read when they start."""
HARMLESS_LATER = frozenset({"TF_CPP_MIN_LOG_LEVEL", "TF_CPP_MAX_VLOG_LEVEL", "GRPC_FAIL_FAST", "TMPDIR", "TMP", "TEMP"})
"""A program may set these at any time: log levels do not change results, and the others are read on each use."""

KNOWN_PYTHON_VARIABLES = frozenset(
    {
        *("PYTHONUNBUFFERED", "PYTHONPATH", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE", "PYTHONIOENCODING"),
        *("PYTHONUTF8", "PYTHONWARNINGS", "PYTHONFAULTHANDLER", "PYTHONNOUSERSITE", "PYTHONPYCACHEPREFIX"),
    }
)
NOT_SEEN = "no import of TensorFlow was found in its program"
"""Why a program starts cold by default."""
ONLY_LINUX = "forking a process that has loaded TensorFlow is only safe on Linux"
TURNED_OFF = "warm starts are turned off (--cold or warm = false)"
_PYTHON = re.compile(r"python(3(\.\d+)?)?")


@dataclass(frozen=True, kw_only=True)
class Start:
    """A command and the properties of its pod; `program` is the file of `argv[0]`, empty if this machine has none."""

    argv: list[str]
    env: Mapping[str, str]
    program: str
    containers: int = 1
    memory_limit: bool = False
    gpus: bool = False
    linux: bool = True


@dataclass(frozen=True)
class Program:
    """What a fork runs: the script or module `argv[at]`; the arguments after it are the program's."""

    at: int
    module: bool = False


@dataclass(frozen=True)
class Cold:
    """A start that runs the command itself; `reason` completes "because ..."."""

    reason: str


def judge(start: Start) -> Program | Cold:
    if not start.linux:
        return Cold(ONLY_LINUX)
    if start.containers > 1:
        return Cold("its pod has more than one container")
    if start.memory_limit:
        return Cold("its memory limit would not count the memory that it shares with the fork server")
    if start.gpus:
        return Cold("it can use a GPU")
    return program(start)


def program(start: Start) -> Program | Cold:
    """Return the Python program that the command runs, or why it could not be forked."""
    name = start.argv[0] if start.argv else ""
    if not _PYTHON.fullmatch(name.rpartition("/")[2]):
        return Cold(f"its command is {name}, not python" if name else "it has no command")
    if not start.program:
        return Cold(f"{name} was not found on this machine")
    unknown = sorted(name for name in start.env if name.startswith("PYTHON") and name not in KNOWN_PYTHON_VARIABLES)
    if unknown:
        return Cold(f"{unknown[0]} is set")
    # PYTHONUNBUFFERED has the same effect as -u.
    at = 2 if start.argv[1:2] == ["-u"] and start.env.get("PYTHONUNBUFFERED") else 1
    if at >= len(start.argv):
        return Cold("python would read its program from standard input")
    word = start.argv[at]
    if word == "-m":
        return Program(at + 1, module=True) if at + 1 < len(start.argv) else Cold("python -m has no module name")
    if word.startswith("-"):
        return Cold(f"its command passes {word[:20]} to python")
    return Program(at) if word.endswith(".py") else Cold(f"{word} is not a .py file")


def read_at_import(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that importing TensorFlow may read; a fork server must have been started with them."""
    return {name: value for name, value in sorted(env.items()) if _is_read_at_import(name)}


def refuse_setting(names: Iterable[str]) -> Cold | None:
    """Return the reason for a cold start if a program sets one of these variables too late for a fork."""
    late = next((name for name in names if _is_read_at_import(name) and name not in HARMLESS_LATER), "")
    return Cold(f"it sets {late}, which TensorFlow reads when it is imported") if late else None


def _is_read_at_import(name: str) -> bool:
    return name not in SET_AFTER_THE_FORK and (name in READ_AT_IMPORT or name.startswith(READ_AT_IMPORT_PREFIXES))
