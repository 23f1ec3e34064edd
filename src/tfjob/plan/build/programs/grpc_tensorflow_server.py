"""A TensorFlow server that holds variables for other tasks until it gets SIGTERM.

TF_CONFIG or flags describe the cluster and the task that this process runs. Flags take precedence:

    grpc_tensorflow_server.py --cluster_spec 'ps|a:2222;b:2222,worker|c:2222' --job_name ps --task_id 1

The program runs in the images of users: with TensorFlow 1 and 2, and with Python 2.7 in the oldest images. It reports
invalid input in one line and exits with code 2.
"""

from __future__ import print_function

import argparse
import json
import os
import signal
import sys
import time

TERMINATED = 128 + signal.SIGTERM


class BadInput(Exception):
    """The flags or TF_CONFIG do not describe a server."""


def main(words):
    """Serve until SIGTERM; return an exit code only if that is not possible."""
    # A process with pid 1, as in a container, ignores SIGTERM unless it has a handler. Python runs a handler only in
    # the main thread, so that thread sleeps below instead of joining the server.
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(TERMINATED))
    try:
        options = parsed(words)
        cluster, job_name, task_id = identity(options, os.environ)
    except BadInput as error:
        return complain(str(error), 2)
    try:
        import tensorflow
    except ImportError as error:
        return complain("cannot import TensorFlow in this image: %s" % error, 1)
    try:
        server = started(tensorflow, cluster, job_name, task_id, options)
    except Exception as error:  # TensorFlow's exception classes differ between versions
        return complain("the server cannot start: %s" % " ".join(str(error).split()), 1)
    print("%s %d is serving at %s" % (job_name, task_id, server.target))
    sys.stdout.flush()
    while True:
        time.sleep(1)


def parsed(words):
    parser = Parser(prog="grpc_tensorflow_server.py", description=__doc__.splitlines()[0])
    parser.add_argument("--cluster_spec", default="", help="the whole cluster: TYPE|HOST:PORT;HOST:PORT,TYPE|...")
    parser.add_argument("--job_name", default="", help="the type of this task, such as ps")
    parser.add_argument("--task_id", type=int, default=0, help="the index of this task within its type")
    parser.add_argument("--gpu_memory_fraction", type=float, default=1.0, help="fraction of each GPU's memory to use")
    parser.add_argument("--verbose", type=flag, nargs="?", const=True, default=False, help="print the whole cluster")
    options = parser.parse_args(words)
    if not 0.0 < options.gpu_memory_fraction <= 1.0:
        raise BadInput("--gpu_memory_fraction is %g; it must be above 0 and at most 1" % options.gpu_memory_fraction)
    return options


class Parser(argparse.ArgumentParser):
    """Reports an error in one line."""

    def error(self, message):
        raise BadInput(message)


def flag(text):
    """Read `true` or `false` as people write them."""
    if text.lower() in ("true", "t", "yes", "1"):
        return True
    if text.lower() in ("false", "f", "no", "0"):
        return False
    raise argparse.ArgumentTypeError("%r is neither true nor false" % text)


def identity(options, environ):
    """Return the cluster, this task's type and its index."""
    if options.cluster_spec or options.job_name:
        cluster, job_name, task_id = cluster_of_flag(options.cluster_spec), options.job_name, options.task_id
        if not job_name:
            raise BadInput("--job_name is empty; set it to the type of this task: %s" % ", ".join(sorted(cluster)))
    else:
        cluster, job_name, task_id = described(environ.get("TF_CONFIG", ""))
    if task_id < 0:
        raise BadInput("the task index is %d; it must be 0 or more" % task_id)
    if job_name not in cluster:
        raise BadInput("the cluster has no task of type %r, only %s" % (job_name, ", ".join(sorted(cluster))))
    tasks = cluster[job_name]
    if isinstance(tasks, list) and len(tasks) == 1 and not options.cluster_spec:
        cluster[job_name] = {task_id: tasks[0]}  # with dynamic workers a task knows only itself
    elif task_id not in (tasks if isinstance(tasks, dict) else range(len(tasks))):
        raise BadInput("no task of type %s has index %d; the cluster has %d of them" % (job_name, task_id, len(tasks)))
    return cluster, job_name, task_id


def cluster_of_flag(text):
    if not text:
        raise BadInput("--cluster_spec is empty; write it like 'ps|a:2222;b:2222,worker|c:2222'")
    cluster = {}
    for part in text.split(","):
        name, bar, tasks = part.partition("|")
        if not bar or "|" in tasks or not name.strip():
            raise BadInput("--cluster_spec: %r is not of the form TYPE|HOST:PORT;HOST:PORT" % part)
        if name.strip() in cluster:
            raise BadInput("--cluster_spec: %s is given twice" % name.strip())
        cluster[name.strip()] = addresses(name.strip(), tasks.split(";"), "--cluster_spec")
    return cluster


def described(text):
    """Return the cluster that TF_CONFIG describes, this task's type and its index."""
    if not text:
        raise BadInput("the cluster is unknown: set TF_CONFIG or --cluster_spec")
    try:
        config = json.loads(text)
        task, given = config["task"], config["cluster"].items()
        cluster = {str(name): addresses(name, tasks, "TF_CONFIG") for name, tasks in given if tasks}
        return cluster, str(task["type"]), int(task["index"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput("TF_CONFIG is invalid: %s: %s" % (type(error).__name__, " ".join(str(error).split())))


def addresses(name, tasks, where):
    if isinstance(tasks, dict):  # some tasks by index
        return {int(number): addresses(name, [task], where)[0] for number, task in tasks.items()}
    found = [str(task).strip() for task in tasks]
    for task in found:
        host, _, port = task.rpartition(":")
        if not host or not port.isdigit():
            raise BadInput("%s: task %r of %s is not of the form HOST:PORT" % (where, task, name))
    return found


def started(tensorflow, cluster, job_name, task_id, options):
    """Return a server that listens; it uses the names of TensorFlow 2 if they exist, else those of TensorFlow 1."""
    compatible = getattr(getattr(tensorflow, "compat", None), "v1", tensorflow)
    config = compatible.ConfigProto()
    if options.gpu_memory_fraction < 1.0:
        config.gpu_options.per_process_gpu_memory_fraction = options.gpu_memory_fraction
    if options.verbose:
        print("cluster: %s" % json.dumps(cluster, sort_keys=True))
    server = getattr(getattr(tensorflow, "distribute", None), "Server", None) or tensorflow.train.Server
    spec = tensorflow.train.ClusterSpec(cluster)
    return server(spec, job_name=job_name, task_index=task_id, protocol="grpc", config=config, start=True)


def complain(message, code):
    print("grpc_tensorflow_server.py: %s" % message, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
