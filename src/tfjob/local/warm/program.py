"""Turn a forked process into `python script.py` or `python -m module`, as if its interpreter had just started.

The fork is already in its container (namespaces, cgroup, filter, session, files, signals). If the container differs
from the place where TensorFlow was imported, the fork runs its command with exec instead: a cold start.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import os
import signal
import sys
import time
import types

from tfjob.local.sandbox import container, processes, syscalls
from tfjob.local.sandbox.pod_files import file_identity, file_version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tfjob.local.sandbox.pod_spec import ContainerPlan


_KERAS_LAYER = os.path.join(__file__.rpartition("/local/")[0], "programs", "keras_layer")


class Imported:
    """What the import of TensorFlow read and changed; `born_with` is the environment before the import."""

    def __init__(self, settings: dict[str, Any], born_with: dict[str, str]) -> None:
        self.variables = {name: value for name, value in os.environ.items() if born_with.get(name) != value}
        self.modules = {name.partition(".")[0] for name in sys.modules} - {"__main__", "tfjob"}
        self._settings = settings
        tensorflow = getattr(sys.modules["tensorflow"], "__file__", None) or ""
        self._places = {path: file_identity(path) for path in (sys.executable, tensorflow, *sys.path)}
        files = {str(file) for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))}
        self._versions = {path: file_version(path) for path in (*files, *sys.path, *settings["files"])}

    def changed(self) -> str:
        """Return which imported file has changed; empty if none has."""
        different = (path for path, was in self._versions.items() if file_version(path) != was)
        return next((f"{path} has changed since TensorFlow was imported" for path in different), "")

    def elsewhere(self) -> str:
        """Return which path names a different file in this container; empty if none does."""
        different = (path for path, was in self._places.items() if file_identity(path) != was)
        return next((f"{path} is a different file in its container" for path in different), "")

    def reads(self, name: str) -> bool:
        """Return whether importing TensorFlow may have read a variable that changes results."""
        settings = self._settings
        is_read = name in settings["names"] or name.startswith(tuple(settings["prefixes"]))
        return is_read and name not in settings["ignored"]


def run(become: container.Become, imported: Imported) -> None:
    """Run the program in this process, as the interpreter's main would; its exceptions are raised."""
    plan, warm = become.plan, become.plan["warm"]
    assert warm is not None
    word, *args = plan["argv"][warm["at"] :]
    script, module = ("", word) if warm["module"] else (word, "")
    container.close_all_but(*become.keep_open())
    become.detach_sockets()
    if reason := _doubt(script, imported):
        become.start_cold(reason)
    _renew_interpreter(plan, script)
    os.environ.update(imported.variables)  # the program's own import of TensorFlow does not set them again
    _load_keras_layer()
    _watch_variables(become, imported)
    body = _of_module(module) if module else _of_script(script)
    sys.argv = ["-m" if module else script, *args]
    for name in [name for name in sys.modules if name.partition(".")[0] == "tfjob"]:
        del sys.modules[name]  # the program may have its own module of this name
    become.alive()
    _call(body)


def _call(body: Callable[[], None]) -> None:
    """Run the program and leave the frames of this module out of its tracebacks."""
    try:
        body()
    except SystemExit:
        raise
    except BaseException as error:
        own = error.__traceback__.tb_next if error.__traceback__ else None  # without this function
        trace = own.tb_next if own else None  # and without the lambda
        hook = sys.excepthook
        sys.excepthook = lambda kind, value, _: hook(kind, value.with_traceback(trace), trace)
        raise


def _doubt(script: str, imported: Imported) -> str:
    """Return why the program must not be forked in this container; empty if it may."""
    if script and not os.path.isfile(script):
        return f"its container has no file {script}"
    if reason := imported.elsewhere():
        return reason
    folder = os.path.dirname(os.path.realpath(script)) if script else os.getcwd()
    try:
        entries = os.listdir(folder)
    except OSError as error:
        return f"{folder}: {error.strerror}"
    suffixes = tuple(importlib.machinery.all_suffixes())
    for entry in sorted(entries):
        name = entry.partition(".")[0]
        is_module = entry.endswith(suffixes) or os.path.exists(f"{folder}/{entry}/__init__.py")
        if name in imported.modules and is_module:
            return f"{folder}/{entry} hides a module that TensorFlow imports"
    return ""


def _renew_interpreter(plan: ContainerPlan, script: str) -> None:
    """Replace what this interpreter has stored about the place where it was started."""
    os.environ.clear()
    os.environ.update({**plan["env"], processes.MARK: plan["uid"]})
    time.tzset()
    sys.orig_argv = list(plan["argv"])
    sys.path.insert(0, os.path.dirname(os.path.realpath(script)) if script else os.getcwd())
    sys.path_importer_cache.clear()
    reset_signals()
    _set("tempfile", "tempdir", None)
    _set("platform", "_uname_cache", None)
    _set("multiprocessing.process", "ORIGINAL_DIR", os.getcwd())
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()  # Python reseeds its own generator after a fork
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    main.__annotations__ = {}
    sys.modules["__main__"] = main
    processes.show_words(plan["argv"])
    processes.show_variables(dict(os.environ))
    syscalls.set_process_name(os.path.basename(plan["argv"][0]))


def _load_keras_layer() -> None:
    """Load the layer that a cold start imports from the first folder of PYTHONPATH."""
    if os.environ.get("PYTHONPATH", "").partition(os.pathsep)[0] == _KERAS_LAYER:
        loader = importlib.machinery.SourceFileLoader("tfjob_keras_layer", f"{_KERAS_LAYER}/sitecustomize.py")
        layer = types.ModuleType(loader.name)
        try:
            loader.exec_module(layer)
        except OSError:
            return  # a volume hides it, as in a cold start
        layer.install()


def reset_signals() -> None:
    """Give every signal the action that it has in a new interpreter, whatever this process has inherited."""
    syscalls.restore_signals()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _set(module: str, name: str, value: object) -> None:
    if hasattr(sys.modules.get(module), name):
        setattr(sys.modules[module], name, value)


def _of_module(module: str) -> Callable[[], None]:
    import runpy

    return lambda: runpy._run_module_as_main(module)  # type: ignore[attr-defined]  # what `python -m` calls


def _of_script(script: str) -> Callable[[], None]:
    path = script if os.path.isabs(script) else f"{os.getcwd()}/{script}"
    main = sys.modules["__main__"].__dict__
    main.update(__file__=path, __cached__=None, __loader__=importlib.machinery.SourceFileLoader("__main__", path))
    with open(path, "rb") as file:
        source = file.read()
    # Compiled later, so that a syntax error is reported as the program's own.
    return lambda: exec(compile(source, path, "exec", dont_inherit=True), main)  # noqa: S102 -- the product


def _watch_variables(become: container.Become, imported: Imported) -> None:
    """Start cold if the program sets a variable that the import of TensorFlow has read, before it uses TensorFlow.

    In a cold start such a line comes before `import tensorflow`, but in a fork it comes after. Once TensorFlow is in
    use, the variable has no effect in a cold start either. Variables that TensorFlow sets do not count.
    """
    put, unset, process = os.putenv, os.unsetenv, os.getpid()
    first = dict(become.plan["env"])

    def look(name: Any, value: Any) -> None:
        if runtime_started():
            os.putenv, os.unsetenv = put, unset
        elif os.getpid() == process and imported.reads(os.fsdecode(name)):
            new = None if value is None else os.fsdecode(value)
            if new != first.get(os.fsdecode(name)) and not _set_by_tensorflow(sys._getframe(2)):
                become.start_cold(f"it sets {os.fsdecode(name)}, which TensorFlow reads when it is imported")

    def putenv(name: Any, value: Any, /) -> None:
        look(name, value)
        put(name, value)

    def unsetenv(name: Any, /) -> None:
        look(name, None)
        unset(name)

    os.putenv, os.unsetenv = putenv, unsetenv


def _set_by_tensorflow(frame: types.FrameType | None) -> bool:
    """Return whether TensorFlow's code has set a variable; `frame` called `os.putenv`, mostly through `os.environ`."""
    while frame is not None and frame.f_globals.get("__name__") in ("os", "collections.abc"):
        frame = frame.f_back
    module = frame.f_globals.get("__name__", "") if frame is not None else ""
    return str(module).partition(".")[0] in ("tensorflow", "keras", "tf_keras")


def runtime_started() -> bool:
    """Return whether TensorFlow is in use: then it has threads, and variables have no effect any more."""
    context = sys.modules.get("tensorflow.python.eager.context")
    return bool(getattr(getattr(context, "_context", None), "_initialized", False))
