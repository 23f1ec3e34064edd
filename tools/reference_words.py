"""The sentences of docs/reference; tools/reference.py puts them beside what it finds in the code."""

from __future__ import annotations

from tfjob.api.field_words import FIELDS as FIELDS

EXIT_CODES = {
    "SUCCEEDED": "it worked; of `run` and `wait`: the job succeeded",
    "FAILED": "the job failed, or ended otherwise than `wait --for` asked",
    "BAD_INPUT": "the command line, the manifest, the configuration or this machine does not allow it; nothing started",
    "NOT_FOUND": "there is no such job, replica or claim",
    "TIMEOUT": "`wait --timeout` ran out",
    "BUG": "a fault in tfjob itself; `TFJOB_DEBUG=1` shows where",
    "INTERRUPTED": "Ctrl-C",
}

IMAGE_KEYS = {
    "python": "the interpreter: a path, or a name that is found on PATH; not together with `virtualenv`",
    "virtualenv": "the virtualenv to run in",
    "workdir": "the working folder, unless the container has a `workingDir`",
    "command": "what the image's ENTRYPOINT is; a container's `command` replaces it",
    "args": "what the image's CMD is; a container's `args` replace it",
    "env": "variables, below those of the manifest",
}

LOCAL_KEYS = {
    "level": "`full`, `addresses`, `ports`, or `auto`: the best that works",
    "limits": "how resource limits are held: by `cgroup`, by `poll` (watching and killing), `off`, or `auto`",
    "log_max_bytes": "size at which a log file is rotated",
    "log_files": "how many files of an attempt are kept",
    "gpu": "true: requests for GPUs are accepted, and replicas see all GPUs of the machine",
}

ENVIRONMENT = {
    "TFJOB_HOME": "the state folder: records, logs, claims, secrets; default `$XDG_STATE_HOME/tfjob`, else"
    " `~/.local/state/tfjob` (macOS: `~/.tfjob`)",
    "TFJOB_ON": "where commands look for jobs and run them when `--on` is not given: `local`, `k8s` or `k8s:CONTEXT`",
    "KUBECONFIG": "the files that describe clusters, for `--on k8s`; default `~/.kube/config`",
    "XDG_CONFIG_HOME": "where `tfjob/config.toml`, your own configuration, is; default `~/.config`",
    "TFJOB_DEBUG": "`1`: a fault in tfjob itself shows its traceback",
}
