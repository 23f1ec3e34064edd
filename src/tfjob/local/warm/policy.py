"""Whether a replica may be forked from a process that has imported TensorFlow, or starts cold, and why.

A fork skips the import; it must not change what the program does. Whatever this policy does not know starts cold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

SET_AFTER_THE_FORK = frozenset(
    {"TF_CONFIG", "CUDA_VISIBLE_DEVICES", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"}
)
"""TensorFlow reads these when it is first used, not when it is imported."""
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
"""What an interpreter, the loader, TensorFlow and the libraries under it read when they start."""
HARMLESS_LATER = frozenset({"TF_CPP_MIN_LOG_LEVEL", "TF_CPP_MAX_VLOG_LEVEL", "GRPC_FAIL_FAST", "TMPDIR", "TMP", "TEMP"})
"""A program may set these itself: how much is logged changes no result, the others are read when needed."""

KNOWN_PYTHON_VARIABLES = frozenset(
    {
        *("PYTHONUNBUFFERED", "PYTHONPATH", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE", "PYTHONIOENCODING"),
        *("PYTHONUTF8", "PYTHONWARNINGS", "PYTHONFAULTHANDLER", "PYTHONNOUSERSITE", "PYTHONPYCACHEPREFIX"),
    }
)
NOT_SEEN = "no import of TensorFlow was found in its program"
"""Why a program starts cold for which nobody has asked for anything else."""
ONLY_LINUX = "forking a process that has loaded TensorFlow is only safe on Linux"
TURNED_OFF = "warm starts are turned off (--cold or warm = false)"
_PYTHON = re.compile(r"python(3(\.\d+)?)?")


@dataclass(frozen=True, kw_only=True)
class Start:
    """What is asked for: the words, the variables, and what this machine makes of them.

    `program` is the file that the first word means here, empty if there is none; `containers` counts those of the
    whole pod.
    """

    argv: list[str]
    env: Mapping[str, str]
    program: str
    containers: int = 1
    memory_limit: bool = False
    gpus: bool = False
    linux: bool = True


@dataclass(frozen=True)
class Program:
    """What a fork becomes: the script, or the module, that is word number `at`; those after it are its own."""

    at: int
    module: bool = False


@dataclass(frozen=True)
class Cold:
    """A start that runs the command as it is; `reason` goes on after "because"."""

    reason: str


def judge(start: Start) -> Program | Cold:
    """The program to fork, or the reason for a cold start."""
    reason = _surroundings(start)
    return Cold(reason) if reason else program(start)


def program(start: Start) -> Program | Cold:
    """The Python program that the words name, whatever surrounds it, or why they name none that could be forked."""
    reason = _interpreter(start)
    return Cold(reason) if reason else _program(start)


def read_at_import(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that an import of TensorFlow may have read: a fork needs a process that was born with the same."""
    return {name: value for name, value in sorted(env.items()) if _is_read_at_import(name)}


def refuse_setting(names: Iterable[str]) -> Cold | None:
    """The reason for a cold start of a program whose lines set these variables, if one of them comes too late then."""
    late = next((name for name in names if _is_read_at_import(name) and name not in HARMLESS_LATER), "")
    return Cold(f"it sets {late}, which TensorFlow reads when it is imported") if late else None


def _is_read_at_import(name: str) -> bool:
    return name not in SET_AFTER_THE_FORK and (name in READ_AT_IMPORT or name.startswith(READ_AT_IMPORT_PREFIXES))


def _surroundings(start: Start) -> str:
    if not start.linux:
        return ONLY_LINUX
    if start.containers > 1:
        return "its pod has more than one container"
    if start.memory_limit:
        return "its memory limit would not count the memory that it shares with the fork server"
    if start.gpus:
        return "it can use a GPU"
    return ""


def _interpreter(start: Start) -> str:
    name = start.argv[0] if start.argv else ""
    if not _PYTHON.fullmatch(name.rpartition("/")[2]):
        return f"its command is {name}, not python" if name else "it has no command"
    if not start.program:
        return f"{name} was not found on this machine"
    unknown = sorted(name for name in start.env if name.startswith("PYTHON") and name not in KNOWN_PYTHON_VARIABLES)
    return f"{unknown[0]} is set" if unknown else ""


def _program(start: Start) -> Program | Cold:
    at = 1
    if start.argv[at : at + 1] == ["-u"] and start.env.get("PYTHONUNBUFFERED"):
        at += 1  # says what the variable says
    if at >= len(start.argv):
        return Cold("python would read its program from standard input")
    word = start.argv[at]
    if word == "-m":
        return Program(at + 1, module=True) if at + 1 < len(start.argv) else Cold("python -m has no module name")
    if word.startswith("-"):
        return Cold(f"its command passes {word[:20]} to python")
    return Program(at) if word.endswith(".py") else Cold(f"{word} is not a .py file")
