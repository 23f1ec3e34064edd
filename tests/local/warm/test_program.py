"""A program that is forked does what it does when it is started by itself; the same tests, both ways."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from support.golden import check_golden
from support.local.pod_harness import EACH_LEVEL, Place, Pods, at, odd_signals
from support.local.warm_pods import WarmPods, warm_pods
from support.running import wait_until

GOLDEN = Path(__file__).parents[2] / "support" / "data" / "local" / "golden"
PROGRAMS = {
    "identity": """
import gc, json, os, platform, resource, signal, socket, sys, tempfile, threading, time, warnings
def attributes(file):
    return file.name, file.encoding, file.errors, file.line_buffering, file.write_through, file.isatty(), file.mode
print(sys.argv, sys.orig_argv, sys.path, sys.executable, sys.prefix, sys.flags, sys.warnoptions, sys._xoptions)
print(__name__, __file__, __spec__, __package__, __doc__, __cached__, type(__loader__), sorted(globals()))
print(sys.modules['__main__'].__dict__ is globals(), 'tfjob' in sys.modules)
print([attributes(file) for file in (sys.stdin, sys.stdout, sys.stderr)], sys.stdin.read())
print({number: signal.getsignal(number) for number in signal.valid_signals()}, signal.pthread_sigmask(0, []))
print(os.getcwd(), os.umask(0o22), os.getsid(0) == os.getpgid(0) == os.getpid(), os.getuid(), os.getgroups())
print([resource.getrlimit(number) for number in range(15)], os.getpriority(0, 0), sorted(os.sched_getaffinity(0)))
print(sorted((name, value) for name, value in os.environ.items() if name != 'TFJOB_POD'), os.environ['TFJOB_POD'][:5])
print(open('/proc/self/comm').read(), open('/proc/self/cmdline', 'rb').read().rstrip(bytes(1)).split(bytes(1)))
print(socket.gethostname() == platform.node(), tempfile.gettempdir(), time.tzname, threading.active_count())
print(sys.getrecursionlimit(), gc.isenabled(), gc.get_threshold(), threading.current_thread().name)
print(sorted({entry.split(b'=')[0] for entry in open('/proc/self/environ', 'rb').read().split(bytes(1)) if entry}))
print(os.environ['TFJOB_POD'].encode() in open('/proc/self/environ', 'rb').read())
sockets = [one.fileno() for one in gc.get_objects() if type(one) is socket.socket]
stale = [fd for fd in sockets if fd > 0 and not os.path.exists(f'/proc/self/fd/{fd}')]
print('sockets that would close other files:', stale)
""",
    "exit-3": "import sys; print('partial', end=''); sys.exit(3)",
    "exit-text": "import sys; sys.exit('no data')",
    "exit-none": "raise SystemExit",
    "exception": "def deep():\n    raise ValueError('bad')\ntry:\n    1 / 0\nexcept Exception:\n    deep()",
    "syntax": "print('never')\nif:\n",
    "interrupt": "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(5)",
    "term": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "kill": "import os; os.kill(os.getpid(), 9)",
    "abort": "import os; os.abort()",
    "hook": "import sys\nsys.excepthook = lambda kind, value, trace: print('hook', kind, trace.tb_lineno)\nint('x')",
    "ending": """
import atexit, threading, time
atexit.register(print, 'last')
atexit.register(print, 'first')
threading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()
print('main')
""",
    "pipe": "import os; r, w = os.pipe(); os.close(r); os.write(w, b'x')",
    "processes": """
import multiprocessing, os, pickle, subprocess, sys
class Thing: pass
def work(number): return number * 2, __name__ , os.environ['LANG']
if __name__ == '__main__':
    print(pickle.loads(pickle.dumps(Thing())).__class__)
    for method in ('fork', 'spawn', 'forkserver'):
        with multiprocessing.get_context(method).Pool(1) as pool: print(method, pool.map(work, [1, 2]))
    print(subprocess.run([sys.executable, '-c', 'import os; print(os.environ["LANG"])'], capture_output=True).stdout)
""",
    "signals": """
import signal
print(*(line for line in open('/proc/self/status') if line.startswith(('SigB', 'SigI', 'SigC'))))
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
""",
    "beside": "import helper; print(helper.__file__, helper.WORD)",
}
MAIN = "import sys; print(sys.argv, sys.path[0], __name__, __package__, __spec__.name, __file__); raise KeyError('m')"
WAYS = {
    "module": ("-m pack.tool", ["a", "-m"]),
    "package": ("-m pack", []),
    "no-module": ("-m pack.nothing", []),
    "no-script": ("nothing.py", []),
    "dotted": ("./identity.py", ["--x=1"]),
    "above": ("pack/../exception.py", []),
    "linked": ("links/identity.py", []),
}

SHORT = ("identity", "exception", "interrupt", "ending", "processes", "module", "no-script")
"""Those that CI has time for."""


@pytest.fixture(scope="module")
def project() -> Iterator[Path]:
    """Programs where any user may read them."""
    folder = Path(tempfile.mkdtemp(prefix="tfjob-project-"))
    folder.chmod(0o755)
    for name, text in PROGRAMS.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "helper.py").write_text("WORD = 'beside'")
    (folder / "pack").mkdir()
    (folder / "pack" / "__init__.py").touch()
    (folder / "pack" / "tool.py").write_text(MAIN)
    (folder / "pack" / "__main__.py").write_text(MAIN)
    (folder / "links").mkdir()
    (folder / "links" / "identity.py").symlink_to(folder / "identity.py")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def warm(pods: Pods) -> Iterator[WarmPods]:
    with warm_pods(pods) as made:
        yield made


@at(EACH_LEVEL[:1])
def test_a_forked_program_is_and_does_what_a_started_one_does(warm: WarmPods, project: Path) -> None:
    """Its words, modules, files, signals, limits, output and end are the same."""
    compare(warm, project, SHORT)


@pytest.mark.long
@at(EACH_LEVEL)
def test_many_forked_programs_are_and_do_what_started_ones_do(warm: WarmPods, project: Path) -> None:
    """The same for every way to start and to end, at every level."""
    compare(warm, project, (*PROGRAMS, *WAYS))


SOUND = ("identity", "ending", "processes")
"""Programs that must come to their end for the comparison to mean something."""


def compare(warm: WarmPods, project: Path, names: Sequence[str]) -> None:
    """Runs programs both ways."""
    known = {name: (f"{name}.py", ["a", "--b"]) for name in PROGRAMS} | WAYS
    asked = {name: known[name] for name in names}
    forks = {name: warm.launch(what, *words, cwd=project, hostname="h") for name, (what, words) in asked.items()}
    started = {name: warm.launch_cold(what, *words, cwd=project, hostname="h") for name, (what, words) in asked.items()}
    for name in asked:
        ends = [pod.ended() for pod in (forks[name], started[name])]
        assert forks[name].log() == started[name].log(), name
        for end in ends:
            del end["startedAt"], end["finishedAt"]
        assert ends[0] == ends[1], name
        assert name not in SOUND or ends[0]["exitCode"] == 0, forks[name].log()
        cold = forks[name].status()["cold"]
        assert cold.keys() == ({"main"} if name == "no-script" else set())
        assert "nothing.py" in cold.get("main", "nothing.py")
        if cold:
            check_golden(GOLDEN / "program-no-script.txt", f"{cold['main']}\n")


@at(EACH_LEVEL)
def test_a_fork_has_the_signals_of_a_started_program(warm: WarmPods, project: Path) -> None:
    """Whatever signals the tool ignores that has started the fork server."""
    with odd_signals():
        pod = warm.launch("signals.py", cwd=project)
    assert pod.ended()["exitCode"] == 0
    assert pod.status()["cold"] == {}
    cold = warm.launch_cold("signals.py", cwd=project)
    cold.ended()
    assert pod.log() == cold.log()
    assert pod.log().endswith("True\n")


@at([Place("full", "root" if os.geteuid() == 0 else "user")])
def test_a_fork_server_does_not_inherit_signals(warm: WarmPods, project: Path) -> None:
    """With SIGCHLD ignored it could not wait for its forks, and with SIGTERM ignored `kill` would not end it."""
    with odd_signals(signal.SIGCHLD, signal.SIGTERM):
        pod = warm.launch("signals.py", cwd=project)
    assert pod.ended()["exitCode"] == 0
    assert pod.status()["cold"] == {}
    warm.end()
    wait_until(lambda: not warm.states(), 60)


@at(EACH_LEVEL[:1])
def test_forks_draw_different_random_numbers(warm: WarmPods, project: Path) -> None:
    (project / "random_numbers.py").write_text("import random, uuid; print(random.random(), uuid.uuid4())")
    runs = [warm.launch("random_numbers.py", cwd=project) for _ in range(3)]
    for run in runs:
        run.ended()
    assert len({run.log() for run in runs}) == 3


@at(EACH_LEVEL[:1])
def test_a_program_that_sets_what_the_import_has_read_starts_over_cold(warm: WarmPods, project: Path) -> None:
    """What stands above `import tensorflow` must count; what comes after its first use need not."""
    (project / "sets.py").write_text(
        "import os; os.environ['TF_USE_LEGACY_KERAS'] = '1'; import tensorflow; print('end')"
    )
    run = warm.launch("sets.py", cwd=project)
    assert run.ended()["exitCode"] == 0, run.status()
    assert run.log() == "end\n"
    reason = "it sets TF_USE_LEGACY_KERAS, which TensorFlow reads when it is imported"
    assert run.status()["cold"] == {"main": reason}
    assert not run.status()["forkFailed"]


@at(EACH_LEVEL[:1])
def test_what_tensorflow_itself_sets_is_no_reason_to_start_over(warm: WarmPods, project: Path) -> None:
    """Its lines run after its import in a cold start too; ParameterServerStrategy's constructor sets such variables."""
    warm.have(
        "import os\ndef strategy():\n    os.environ['TF_ENQUEUE'] = 'False'\n    os.environ.update(TF_GLOBALLY='1')"
    )
    (project / "strategy.py").write_text(
        "import os, tensorflow; print('once'); tensorflow.strategy(); print(os.environ['TF_ENQUEUE'])"
    )
    run = warm.launch("strategy.py", cwd=project)
    assert run.ended()["exitCode"] == 0, run.log()
    assert run.log() == "once\nFalse\n"
    assert run.status()["cold"] == {}


@at(EACH_LEVEL[:1])
def test_what_the_import_sets_is_set_in_a_fork_too(warm: WarmPods, project: Path) -> None:
    warm.have("import os\nos.environ['TF2_BEHAVIOR'] = '1'\nos.environ.setdefault('LANG', 'none')")
    (project / "asks.py").write_text("import os, tensorflow; os.system('echo $TF2_BEHAVIOR $LANG')")
    runs = [warm.launch("asks.py", cwd=project), warm.launch_cold("asks.py", cwd=project)]
    assert [(run.ended()["exitCode"], run.log()) for run in runs] == [(0, "1 C.UTF-8\n")] * 2
    assert runs[0].status()["cold"] == {}


ELSEWHERE = """
import os, signal, sys, threading
print(os.getcwd(), os.umask(0o77), signal.getsignal(signal.SIGTERM))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.chdir('/')
def settle():
    os.environ['OMP_NUM_THREADS'] = '1'
if sys.argv[1] == 'thread':
    thread = threading.Thread(target=settle)
    thread.start()
    thread.join()
else:
    settle()
print('end')
"""


@at(EACH_LEVEL[:1])
@pytest.mark.parametrize("where", ["main", "thread"])
def test_a_program_that_starts_over_finds_what_it_found_at_first(warm: WarmPods, project: Path, where: str) -> None:
    """Its working folder, its mask for new files and its signals; also when another thread sets the variable."""
    (project / "moves.py").write_text(ELSEWHERE)
    run = warm.launch("moves.py", where, cwd=project)
    assert run.ended()["exitCode"] == 0, run.log()
    first, second, end = run.log().splitlines()
    assert (first, end) == (second, "end")
    assert "OMP_NUM_THREADS" in run.status()["cold"]["main"]


TIED = """
import ctypes, os, threading
def settle():
    os.environ['OMP_NUM_THREADS'] = '1'
thread = threading.Thread(target=settle)
thread.start()
thread.join()
number = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(number), 0, 0, 0)  # PR_GET_PDEATHSIG
print(number.value)
"""


@at(EACH_LEVEL[1:])
def test_a_program_that_a_thread_starts_over_dies_with_its_init_all_the_same(warm: WarmPods, project: Path) -> None:
    """Without a pid namespace nothing else would end it when its init is killed."""
    (project / "tied.py").write_text(TIED)
    run = warm.launch("tied.py", cwd=project)
    assert run.ended()["exitCode"] == 0, run.log()
    assert "OMP_NUM_THREADS" in run.status()["cold"]["main"]
    assert run.log() == f"{signal.SIGKILL:d}\n"


@at([Place("full", "root" if os.geteuid() == 0 else "user")])
def test_a_volume_over_what_was_imported_makes_the_start_cold(warm: WarmPods, project: Path) -> None:
    """The container has another TensorFlow there."""
    other = project / "packages"
    other.mkdir()
    (other / "tensorflow.py").write_text("__version__ = 'of the volume'")
    (project / "version.py").write_text("import tensorflow; print(tensorflow.__version__)")
    mount = {"source": str(other), "target": str(warm.packages), "readOnly": True}
    run = warm.launch("version.py", cwd=project, mounts=[mount])
    assert run.ended()["exitCode"] == 0, run.log()
    assert run.log() == "of the volume\n"
    cold = run.status()["cold"]["main"].replace(str(warm.packages), "PACKAGES")
    check_golden(GOLDEN / "program-hidden-by-volume.txt", f"{cold}\n")


@at(EACH_LEVEL[:1])
def test_a_file_that_hides_a_module_of_tensorflow_makes_the_start_cold(warm: WarmPods, project: Path) -> None:
    """A cold start would import that file instead."""
    (project / "hidden").mkdir()
    (project / "hidden" / "train.py").write_text("import json; print(json.__file__)")
    (project / "hidden" / "json.py").touch()
    run = warm.launch("hidden/train.py", cwd=project)
    assert run.ended()["exitCode"] == 0, run.status()
    assert run.log() == f"{project}/hidden/json.py\n"
    cold = run.status()["cold"]["main"].replace(str(project), "PROJECT")
    check_golden(GOLDEN / "program-hidden-module.txt", f"{cold}\n")


HANGS_ONCE = """
import os, time
forks = []
def after():
    forks.append(1)
    if len(forks) == 4 and not os.path.exists('/var/tmp/{mark}'):
        open('/var/tmp/{mark}', 'w').close()
        time.sleep(1000)
os.register_at_fork(after_in_child=after)
"""


@at([Place("addresses", "root" if os.geteuid() == 0 else "user")])
def test_a_fork_without_life_is_started_again_cold(warm: WarmPods, project: Path) -> None:
    """Its fourth fork, the program itself, never comes to its first line; nobody counts that as a restart."""
    mark = Path("/var/tmp") / f"tfjob-hung-{os.getpid()}"
    warm.have(HANGS_ONCE.format(mark=mark.name))
    run = warm.launch("exit-3.py", cwd=project, life=1.0)
    assert run.ended()["exitCode"] == 3
    status = run.status()
    assert status["cold"].keys() == {"main"}
    check_golden(GOLDEN / "program-no-life.txt", f"{status['cold']['main']}\n")
    assert status["forkFailed"]
    assert run.find(status, "main")["restartCount"] == 0
    assert run.log() == "partial"
    mark.unlink()


@at(EACH_LEVEL[:1])
def test_a_fork_that_crashes_early_starts_cold_the_next_time(warm: WarmPods, project: Path) -> None:
    """The crash itself is reported as it is: it may be the program's own."""
    run = warm.launch("abort.py", cwd=project, restartPolicy="OnFailure")
    run.until(lambda: run.find(run.status(), "main").get("restartCount", 0) >= 1)
    cold = run.status()["cold"]
    assert cold.keys() == {"main"}
    assert "134" in cold["main"]
    check_golden(GOLDEN / "program-crashed.txt", f"{cold['main']}\n")
    assert run.find(run.status(), "main")["lastState"]["terminated"]["exitCode"] == 134
    run.kill()
