"""A TensorFlow server that holds variables for others, until it is told to end.

TF_CONFIG, or flags, which take precedence, describe the cluster and which task of it this is:

    grpc_tensorflow_server.py --cluster_spec 'ps|a:2222;b:2222,worker|c:2222' --job_name ps --task_id 1

It runs in the images of users: with TensorFlow 1 and 2, and with the Python 2.7 of the oldest of them. A fault in its
input is reported in one line, with exit code 2.
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
    """What was given does not describe a server."""


def main(words):
    """Serves until SIGTERM; returns an exit code only if that is not possible."""
    # A process with the number 1, as in a container, ignores SIGTERM unless it has a handler; and a handler of Python
    # runs only while the main thread does, which is why it sleeps below and does not join the server.
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(TERMINATED))
    try:
        options = parsed(words)
        cluster, job_name, task_id = identity(options, os.environ)
    except BadInput as error:
        return complain(str(error), 2)
    try:
        import tensorflow
    except ImportError as error:
        return complain("this image has no TensorFlow that can be used: %s" % error, 1)
    try:
        server = started(tensorflow, cluster, job_name, task_id, options)
    except Exception as error:  # TensorFlow's own kinds differ from version to version
        return complain("the server cannot start: %s" % " ".join(str(error).split()), 1)
    print("%s %d serves at %s" % (job_name, task_id, server.target))
    sys.stdout.flush()
    while True:
        time.sleep(1)


def parsed(words):
    parser = Parser(prog="grpc_tensorflow_server.py", description=__doc__.splitlines()[0])
    parser.add_argument("--cluster_spec", default="", help="TYPE|HOST:PORT;HOST:PORT,TYPE|... of the whole cluster")
    parser.add_argument("--job_name", default="", help="the type of this task, such as ps")
    parser.add_argument("--task_id", type=int, default=0, help="the number of this task within its type")
    parser.add_argument("--gpu_memory_fraction", type=float, default=1.0, help="how much of each GPU may be used")
    parser.add_argument("--verbose", type=flag, nargs="?", const=True, default=False, help="show the whole cluster")
    options = parser.parse_args(words)
    if not 0.0 < options.gpu_memory_fraction <= 1.0:
        raise BadInput("--gpu_memory_fraction is %g, it must be above 0 and at most 1" % options.gpu_memory_fraction)
    return options


class Parser(argparse.ArgumentParser):
    """Complains in one line."""

    def error(self, message):
        raise BadInput(message)


def flag(text):
    """`true` or `false` as people write them."""
    if text.lower() in ("true", "t", "yes", "1"):
        return True
    if text.lower() in ("false", "f", "no", "0"):
        return False
    raise argparse.ArgumentTypeError("%r is neither true nor false" % text)


def identity(options, environ):
    """The cluster, this task's type in it, and its number."""
    if options.cluster_spec or options.job_name:
        cluster, job_name, task_id = cluster_of_flag(options.cluster_spec), options.job_name, options.task_id
        if not job_name:
            raise BadInput("--job_name is empty, it says which type of task this is: %s" % ", ".join(sorted(cluster)))
    else:
        cluster, job_name, task_id = described(environ.get("TF_CONFIG", ""))
    if task_id < 0:
        raise BadInput("the number of the task is %d, it must be 0 or more" % task_id)
    if job_name not in cluster:
        raise BadInput("there is no task of type %r in the cluster, only %s" % (job_name, ", ".join(sorted(cluster))))
    tasks = cluster[job_name]
    if isinstance(tasks, list) and len(tasks) == 1 and not options.cluster_spec:
        cluster[job_name] = {task_id: tasks[0]}  # with dynamic workers a task knows itself alone
    elif task_id not in (tasks if isinstance(tasks, dict) else range(len(tasks))):
        raise BadInput("task %d of type %s is not in the cluster, which has %d" % (task_id, job_name, len(tasks)))
    return cluster, job_name, task_id


def cluster_of_flag(text):
    """The cluster that `--cluster_spec` describes."""
    if not text:
        raise BadInput("--cluster_spec is empty, write it like 'ps|a:2222;b:2222,worker|c:2222'")
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
    """The cluster that TF_CONFIG describes, this task's type in it, and its number."""
    if not text:
        raise BadInput("neither TF_CONFIG nor --cluster_spec says what the cluster is")
    try:
        config = json.loads(text)
        task, given = config["task"], config["cluster"].items()
        cluster = {str(name): addresses(name, tasks, "TF_CONFIG") for name, tasks in given if tasks}
        return cluster, str(task["type"]), int(task["index"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput("TF_CONFIG cannot be used, %s: %s" % (type(error).__name__, " ".join(str(error).split())))


def addresses(name, tasks, where):
    """The tasks of a type, each with its host and port."""
    if isinstance(tasks, dict):  # some tasks by their numbers
        return {int(number): addresses(name, [task], where)[0] for number, task in tasks.items()}
    found = [str(task).strip() for task in tasks]
    for task in found:
        host, _, port = task.rpartition(":")
        if not host or not port.isdigit():
            raise BadInput("%s: %s has the task %r, which is not of the form HOST:PORT" % (where, name, task))
    return found


def started(tensorflow, cluster, job_name, task_id, options):
    """A server that listens; the names of TensorFlow 2, else those of TensorFlow 1."""
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
