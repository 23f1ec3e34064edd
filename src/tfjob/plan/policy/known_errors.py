"""Failures that users of TensorFlow and Keras meet: how each one looks, its cause, and what to do about it.

A pattern is a regular expression for the end of a log. On a cluster the kubelet keeps at most 2048 bytes of it, so a
pattern matches what a program prints last: the end of its traceback, not the lines that led to it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

WINDOW = 4096
"""Number of characters at the end of a log that count as evidence. What a program prints earlier is often harmless."""


class KnownError(NamedTuple):
    """One failure. `shows` is the text by which a user recognizes it; an exit code alone is evidence too."""

    name: str
    shows: str
    pattern: str
    cause: str
    remedy: str
    exit_code: int | None = None


KNOWN_ERRORS = (
    KnownError(
        "keras-multi-worker",
        "ValueError: Attempt to convert a value (PerReplica:{...}) with an unsupported type",
        r"with an unsupported type \(<class '[\w.]*PerReplica'>\)",
        "`fit` of Keras 3 does not work under MultiWorkerMirroredStrategy with several workers.",
        "tfjob works around this in Keras 3.12 through 3.15, unless TFJOB_KERAS_LAYER=0 is set. On a cluster, it does"
        " so for code that it sends, or with TFJOB_KERAS_LAYER=1. Elsewhere, install tf_keras and set"
        " TF_USE_LEGACY_KERAS=1, or write a custom loop; `tfjob init multi-worker` creates one.",
    ),
    KnownError(
        "keras-parameter-server",
        "To use this dataset, you need to pass this dataset to ClusterCoordinator.create_per_worker_dataset.",
        r"pass this dataset to ClusterCoordinator\.create_per_worker_dataset",
        "`fit` of Keras 3 does not support ParameterServerStrategy.",
        "Install tf_keras and set TF_USE_LEGACY_KERAS=1, or write a custom training loop with ClusterCoordinator;"
        " `tfjob init parameter-server` creates one.",
    ),
    KnownError(
        "legacy-keras-missing",
        "ImportError: Keras cannot be imported. Check that it is installed.",
        r"do not have the tf_keras package installed|No module named 'tf_keras'|ImportError: Keras cannot be imported",
        "The Keras that the program requests is not installed. With TF_USE_LEGACY_KERAS=1, that is tf_keras.",
        "Install the tf_keras of your TensorFlow version (`pip install tf_keras==2.21.0`; add `--no-deps` if you use"
        " tensorflow-cpu), or unset TF_USE_LEGACY_KERAS.",
    ),
    KnownError(
        "tf-config-missing",
        "KeyError: 'TF_CONFIG'",
        r"KeyError: 'TF_CONFIG'",
        "TF_CONFIG is not set: tfjob leaves it out for a job with one replica (except a script with --workers 1).",
        'Read it with `os.environ.get("TF_CONFIG", "{}")`, or request several replicas.',
    ),
    KnownError(
        "replica-type-missing",
        "ValueError: There must be at least one ps.",
        r"There must be at least one (?:ps|worker)\.|it must have one \"chief\" node|KeyError: '(?:chief|master|ps)'"
        r"|No such job in cluster: '|`task_type` '\w+' not found in cluster_spec",
        "The program needs a chief, worker or parameter server that the job does not have.",
        "Add the replica type to `tfReplicaSpecs`. For a script, use `--chief`, `--workers N` or `--ps N`.",
    ),
    KnownError(
        "variable-missing",
        "KeyError: 'DATA_DIR', raised by os.environ",
        r"(?:<frozen os>|/os\.py)\", line \d+, in __getitem__\n(?: .*\n)*KeyError: '",
        "The program reads an environment variable that the replica does not have. A replica inherits only a few"
        " variables of your shell.",
        "For a script, use --env NAME=VALUE, or --env NAME to pass the variable of your shell. In a manifest, set it"
        " under `env` of the container.",
    ),
    KnownError(
        "address-in-use",
        "UnknownError: Could not start gRPC server",
        r"Could not start gRPC server|Address already in use",
        "Another process already listens on the port that the program opens.",
        "End that process (`ss -ltnp` lists the listening ones), or choose another port: `containerPort` of the port"
        " tfjob-port in the manifest.",
    ),
    KnownError(
        "peer-missing",
        "RuntimeError: Timeout waiting for the cluster",
        r"Timeout waiting for the cluster, timeout is|Barrier timed out\. \w+: \W*(?!Shutdown)\w"
        r"|still waiting for response from worker",
        "A replica waited for a peer that did not join in time.",
        "`tfjob status JOB` shows which replica is not running, and why. If all are running, check that each of them"
        " creates the same strategy.",
    ),
    KnownError(
        "out-of-memory",
        "ResourceExhaustedError: OOM when allocating tensor, or std::bad_alloc",
        r"std::bad_alloc|OOM when allocating|RESOURCE_EXHAUSTED: (?:Out of memory|Failed to allocate)"
        r"|Unable to allocate .* for an array|(?:^|\n)MemoryError",
        "The program requested more memory than it can get.",
        "Use a smaller batch or model, or load less data at once. If the replica has a limit, raise"
        " `resources.limits.memory`.",
    ),
    KnownError(
        "cpu-instructions",
        "killed by SIGILL (132)",
        r"The TensorFlow library was compiled to use .* instructions, but these aren't available",
        "The program uses instructions that this CPU does not have. Usually the TensorFlow wheel was built for a newer"
        " CPU.",
        "Install a wheel that was built for this CPU, or run the replica on another machine (on a cluster, with a"
        " `nodeSelector`).",
        132,
    ),
    KnownError(
        "cuda-library-missing",
        "libcudart.so.12: cannot open shared object file",
        r"lib(?:cu\w+|nccl|nvinfer|nvrtc)[\w.-]*\.so[\w.]*: cannot open shared object file"
        r"|Could not load dynamic library 'lib(?:cu|nccl|nv)|libdevice not found",
        "A CUDA library that the program needs is not installed, or not on the search path of libraries.",
        "Install TensorFlow with its CUDA libraries (`pip install 'tensorflow[and-cuda]'`), or tensorflow-cpu if you do"
        " not need a GPU.",
    ),
    KnownError(
        "nan-loss",
        "Invalid loss, terminating training",
        r"Invalid loss, terminating training|NaN or Inf loss encountered|NaN loss during training"
        r"|Tensor had (?:NaN|Inf|-Inf)",
        "The loss became NaN or infinite, and the program stopped the training.",
        "Lower the learning rate or clip the gradients, and check the data for NaN. If the program resumes"
        " from checkpoints, delete those that contain NaN.",
    ),
    KnownError(
        "checkpoint-shape",
        "ValueError: Received incompatible tensor with shape (8,) when attempting to restore variable with shape (4,)",
        r"Received incompatible tensor with shape .* when attempting to restore|objects that could not be loaded:"
        r"|target value in `variable\.assign\(value\)` must match|Assign requires shapes of both tensors to match"
        r"|mismatch between the current graph and the graph from the checkpoint",
        "The checkpoint was written by a model with other layers or shapes.",
        "Use the code that wrote the checkpoint, or start with an empty checkpoint folder.",
    ),
    KnownError(
        "disk-full",
        "OSError: [Errno 28] No space left on device",
        r"No space left on device",
        "A disk or volume that the program writes to is full.",
        "Free space or use a larger volume, and keep fewer checkpoints. On this machine, `tfjob prune` deletes old"
        " runs, and `tfjob volume ls` shows the size of claims.",
    ),
    KnownError(
        "protobuf-version",
        "TypeError: Descriptors cannot be created directly",
        r"Descriptors cannot(?: not)? be created directly|Detected (?:incompatible|mismatched) Protobuf Gencode/Runtime"
        r"|cannot import name '\w+' from 'google\.protobuf|'MessageFactory' object has no attribute",
        "The installed protobuf does not fit TensorFlow or another package that uses it.",
        "`pip check` names the conflict. Reinstall TensorFlow with the other packages in one `pip install`, so that pip"
        " chooses a protobuf that fits all of them.",
    ),
    KnownError(
        "python-missing",
        'exec: "python": executable file not found in $PATH',
        r'exec: \\*"python[\d.]*\\*": executable file not found in \$PATH',
        "The image has no Python on its PATH.",
        "Use an image that has Python. The init container `tfjob-files` needs it to unpack the files that tfjob sends."
        " If the image contains your code, add --in-image to send none.",
    ),
    KnownError(
        "tensorboard-missing",
        "TBNotInstalledError: TensorBoard is not installed, missing implementation for tf.summary.scalar",
        r"TensorBoard is not installed, missing implementation for|No module named 'tensorboard'",
        "The program writes summaries, but TensorBoard is not installed. TensorFlow 2.21 no longer installs it.",
        "Install it where the program runs: `pip install tensorboard`.",
    ),
    KnownError(
        "file-system-missing",
        "UnimplementedError: File system scheme 's3' not implemented",
        r"File system scheme '[^']*' not implemented",
        "This TensorFlow has no file system for the scheme of the path. It has had none for `s3://` since version 2.6.",
        "Mount the data as a volume, or read it with another library, such as s3fs or boto3.",
    ),
)


def advice(log: str, exit_code: int) -> str:
    """Return cause and remedy of the known error that a log shows last; empty if there is none."""
    log = log[-WINDOW:]
    shown = [(end, entry) for entry in KNOWN_ERRORS if (end := _last_match(entry.pattern, log))]
    by_code = (entry for entry in KNOWN_ERRORS if entry.exit_code == exit_code)
    entry = max(shown)[1] if shown else next(by_code, None)
    return f"{entry.cause} {entry.remedy}" if entry else ""


def _last_match(pattern: str, text: str) -> int:
    """Return where the last match of a pattern ends; 0 without a match."""
    return max((found.end() for found in re.finditer(pattern, text)), default=0)
