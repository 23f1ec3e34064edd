"""Build the images from this interpreter and its packages, without a container engine, a registry or a network.

    uv run python tools/image.py --output dist/image                  the root file system and an OCI archive
    ctr -n k8s.io images import dist/image/tf-job-operator.tar        import it into a node's containerd
    docker build -t REGISTRY/tf-job-operator:TAG -f Dockerfile dist/image
    uv run python tools/image.py --tensorboard --output dist/board    the image tf-job-tensorboard
    uv run python tools/image.py --serving --output dist/serving      the image tf-job-serving
    uv run python tools/image.py --sample --output dist/sample        the image tf-job-sample

An image holds the interpreter, its standard library, packages as they are installed in this environment, and the shared
libraries that they need. It has no shell and no package manager. The operator's image has the packages of
`tfjob[operator]`. TensorBoard's image has those of `tensorboard`, the readers of object stores, and the trusted
certificates. The image of the model server has the packages of `tfjob[serve]` and TensorFlow's libraries, without its
Python package. The sample image has TensorFlow and the folder of the examples.
"""

from __future__ import annotations

import argparse
import compileall
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # Python adds only the folder of the script

import model_server_program
import tensorboard_program

from devcluster import images
from tfjob import __version__
from tfjob.api.servers import MODEL_SERVER, MODEL_SERVER_ENV

PROJECT = Path(__file__).parent.parent
USER_ID = 65532
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
INTERPRETER = "/usr/local/bin/python"
PACKAGES = "/app"
LEFT_OUT = (
    "__pycache__",
    "distutils",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "pydoc_data",
    "site-packages",
    "dist-packages",
    "test",
    "tests",
    "tkinter",
    "turtledemo",
    "config-*",
    "_curses*",
    "_dbm*",
    "_gdbm*",
    "_test*",
    "_tkinter*",
    "_xxtestfuzz*",
    "nis.*",
    "readline*",
    "xxlimited*",
    "_ctypes_test*",
    "*.a",
)
"""Parts of a Python installation that no image needs."""
LOADED_LATER = ("libgcc_s.so.1",)
"""Libraries that the C library loads at run time: without this one, a thread that is cancelled aborts the process."""
FILES = {
    "etc/passwd": f"operator:x:{USER_ID}:{USER_ID}::/:/nonexistent\n",
    "etc/group": f"operator:x:{USER_ID}:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
NOT_COPIED = ("__pycache__", ".venv", "share")
"""Files that running the examples leaves in their folder."""
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"


@dataclass(frozen=True)
class Contents:
    """What one image holds in addition to the interpreter.

    `packages` are distributions with their extras; files that match `unneeded` are left out. Of the distributions in
    `parts`, without what they require, only the files that match a pattern are included. `aside` maps a separate
    folder to the distributions in it, which a program adds to its path when it needs them. `files` and `trees` are
    copied to their place in the image, and `programs` to its folder of programs. `open_folders` are writable for every
    user. `optimize` is Python's optimization level (2 drops docstrings). `variables` are set in addition to those of
    every image. Without a `user`, the image runs as root.
    """

    name: str
    entry: tuple[str, ...]
    packages: dict[str, frozenset[str]]
    unneeded: tuple[str, ...] = ()
    parts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    aside: dict[str, tuple[str, ...]] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    trees: dict[str, Path] = field(default_factory=dict)
    programs: dict[str, Path] = field(default_factory=dict)
    open_folders: tuple[str, ...] = ("tmp",)
    working_folder: str = "/"
    user: str = f"{USER_ID}:{USER_ID}"
    optimize: int = 0
    variables: tuple[str, ...] = ()

    @property
    def config(self) -> dict[str, object]:
        """How the image runs; the Dockerfile repeats this for the operator's image."""
        return {
            "User": self.user,
            "Env": [
                "PATH=/usr/local/bin",
                f"PYTHONPATH={PACKAGES}",
                "PYTHONUNBUFFERED=1",
                "PYTHONDONTWRITEBYTECODE=1",
                "LANG=C.UTF-8",
                *([f"PYTHONOPTIMIZE={self.optimize}"] if self.optimize else []),
                *self.variables,
            ],
            "Entrypoint": [INTERPRETER, *self.entry],
            "WorkingDir": self.working_folder,
        }


OPERATOR = Contents("tf-job-operator", ("-m", "tfjob"), {"tfjob": frozenset({"operator"})})
TENSORBOARD = Contents(
    "tf-job-tensorboard",
    ("/usr/local/bin/tensorboard",),
    {"tensorboard": frozenset()},
    aside={tensorboard_program.READERS: ("fsspec", "obstore")},
    files={CERTIFICATES: Path("/", CERTIFICATES)},
    programs={"tensorboard": Path(tensorboard_program.__file__)},
    optimize=2,
    # Threads share one heap without spare room, and memory that a page used once is returned.
    variables=("MALLOC_ARENA_MAX=1", "MALLOC_TOP_PAD_=0", "MALLOC_MMAP_THRESHOLD_=1048576"),
)
SERVING = Contents(
    "tf-job-serving",
    ("/usr/local/bin/tf_serving_entrypoint",),
    {"tfjob": frozenset({"serve"})},
    parts={"tensorflow-cpu": ("tensorflow/libtensorflow_*.so.2", "tensorflow_cpu-*.dist-info/METADATA")},
    programs=dict.fromkeys((MODEL_SERVER, "tf_serving_entrypoint"), Path(model_server_program.__file__)),
    variables=tuple(f"{name}={value}" for name, value in MODEL_SERVER_ENV.items()),
)
SAMPLE = Contents(
    "tf-job-sample",
    ("train.py",),
    {"tensorflow-cpu": frozenset()},
    unneeded=("tensorflow/include/*", "clang/*", "libclang-*"),  # headers and compilers: a quarter of its size
    trees={"examples": PROJECT / "examples"},
    open_folders=("tmp", "app/tf_files"),
    working_folder="/examples",
    user="",  # root, as in TensorFlow's images: mounted volumes are rarely writable for other users
)
BARE = Contents("interpreter", (), {})


def main() -> None:
    """Write OUTPUT/rootfs, OUTPUT/rootfs.tar and an archive with the name of the image."""
    parser = argparse.ArgumentParser(
        description="Build the image of the operator, of TensorBoard, of the model server or of the samples."
    )
    parser.add_argument(
        "--output", type=Path, default=Path("dist/image"), help="folder to write into (default: %(default)s)"
    )
    parser.add_argument("--name", help=f"name of the image (default: localhost/tf-job-operator:{__version__})")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--tensorboard", action="store_true", help="build the image of TensorBoard")
    what.add_argument("--serving", action="store_true", help="build the image of the model server")
    what.add_argument("--sample", action="store_true", help="build the image of TensorFlow and the examples")
    what.add_argument(
        "--interpreter",
        action="store_true",
        help="build only the root file system, without tfjob, as a base for other images",
    )
    parser.add_argument("--base", type=Path, metavar="ROOTFS", help="output of --interpreter, to save time")
    options = parser.parse_args()
    others = {"tensorboard": TENSORBOARD, "serving": SERVING, "sample": SAMPLE, "interpreter": BARE}
    contents = next((one for option, one in others.items() if getattr(options, option)), OPERATOR)
    root = options.output / "rootfs"
    shutil.rmtree(root, ignore_errors=True)
    root_file_system(root, contents, options.base)
    if options.interpreter:
        return
    layer = images.layer_of(root)
    (options.output / "rootfs.tar").write_bytes(layer)
    archive = options.output / f"{contents.name}.tar"
    name = options.name or f"localhost/{contents.name}:{__version__}"
    digest = images.write_layer(archive, name, layer, contents.config)
    megabytes = len(layer) / 1e6, archive.stat().st_size / 1e6
    print(f"{name} {digest}\n{archive}: {megabytes[1]:.0f} MB, {megabytes[0]:.0f} MB unpacked")


def root_file_system(root: Path, contents: Contents, base: Path | None = None) -> None:
    """Write the contents of an image into a new folder; `base` is a folder that contains only the interpreter."""
    if base is None:
        copy_interpreter(root)
    else:
        shutil.copytree(base, root)
    packages = needed(contents.packages)
    copy_packages(root / PACKAGES.lstrip("/"), packages, contents.unneeded)
    for package, patterns in contents.parts.items():
        copy_files(root / PACKAGES.lstrip("/"), package, lambda name, wanted=patterns: matches(name, wanted))
    for folder, names in contents.aside.items():
        copy_packages(root / folder.lstrip("/"), needed(dict.fromkeys(names, frozenset())) - packages)
    for place, source in contents.trees.items():
        shutil.copytree(source, root / place, ignore=shutil.ignore_patterns(*NOT_COPIED))
    for place, source in contents.files.items():
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, root / place)
    for name, source in contents.programs.items():
        program = root / "usr/local/bin" / name
        shutil.copy(source, program)
        program.chmod(0o755)
    copy_libraries(root)
    for name, text in FILES.items():
        write(root / name, text)
    for name in contents.open_folders:
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name).chmod(0o1777)  # mkdir applies the umask
    is_compiled = base is not None and not contents.optimize
    compiled = (*(() if is_compiled else ("usr/local/lib",)), PACKAGES, *contents.aside)
    for folder in filter(Path.exists, (root / folder.lstrip("/") for folder in compiled)):
        # Checked by hash: on a read-only file system without times, Python must not compile again.
        compileall.compile_dir(
            str(folder),
            stripdir=str(root),
            prependdir="/",
            quiet=2,
            workers=0,
            optimize=contents.optimize,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )


def copy_interpreter(root: Path) -> None:
    """Copy the program and its standard library; the program finds the library next to it, wherever both are."""
    program = root / INTERPRETER.lstrip("/")
    program.parent.mkdir(parents=True)
    shutil.copy(Path(sys.executable).resolve(), program)
    base = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    for source in {sysconfig.get_path(name, vars=base) for name in ("stdlib", "platstdlib")}:
        library = root / "usr/local/lib" / PYTHON
        shutil.copytree(source, library, ignore=shutil.ignore_patterns(*LEFT_OUT), dirs_exist_ok=True)


def copy_packages(target: Path, packages: set[str], unneeded: tuple[str, ...] = ()) -> None:
    """Copy packages as they are installed, without unneeded files, and `tfjob` from this project."""
    if "tfjob" in packages:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PROJECT / "src" / "tfjob", target / "tfjob", ignore=ignored)
    for package in sorted(packages - {"tfjob"}):
        copy_files(target, package, lambda name: not matches(name, unneeded))


def copy_files(target: Path, package: str, is_wanted: Callable[[str], bool]) -> None:
    """Copy the wanted files of an installed package."""
    for source, name in files_of(distribution(package)):
        if is_wanted(name):
            destination = target / name
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, destination)


def matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def needed(wanted: dict[str, frozenset[str]]) -> set[str]:
    """Return distributions and all that they require; one that is not installed is for another platform."""
    found: set[str] = set()
    asked: set[tuple[str, frozenset[str]]] = set()
    todo = list(wanted.items())
    while todo:
        one, extras = todo.pop()
        if (one, extras) in asked:
            continue
        asked.add((one, extras))
        try:
            requirements = distribution(one).requires or []
        except PackageNotFoundError:
            continue
        found.add(one)
        todo += list(applying(requirements, extras))
    return found


def applying(requirements: Iterable[str], wanted: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the name and extras of the requirements that apply with these extras."""
    for line in requirements:
        requirement, _, marker = line.partition(";")
        conditions = re.findall(r"extra\s*==\s*['\"]([^'\"]+)['\"]", marker)
        if conditions and not wanted & set(conditions):
            continue
        match = re.match(r"\s*([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?", requirement)
        assert match is not None, line
        extras = frozenset(extra.strip() for extra in (match[2] or "").split(",") if extra.strip())
        yield re.sub(r"[-_.]+", "-", match[1]).lower(), extras


def files_of(package: Distribution) -> Iterator[tuple[Path, str]]:
    """The files of an installed package, and their place below the folder of packages; its commands and tests stay."""
    for file in package.files or []:
        if not file.parts[0].startswith("..") and not {"__pycache__", "tests"} & set(file.parts):
            yield Path(str(file.locate())), str(file)


def copy_libraries(root: Path) -> None:
    """Every shared library that a program or extension of the image needs, and the loader."""
    programs = [root / INTERPRETER.lstrip("/"), *root.rglob("*.so"), *root.rglob("*.so.*")]
    libraries: dict[str, Path] = {}
    missing: dict[str, Path] = {}
    for program in programs:
        found, lacking = linked(program)
        libraries |= found
        missing |= dict.fromkeys(lacking, program)
    # A library that a package contains for another of its libraries is already loaded when that one needs it.
    for name in missing.keys() - {program.name for program in programs}:
        raise SystemExit(f"{missing[name]}: the library {name} does not exist on this machine")
    system = next(path.parent for name, path in libraries.items() if name == "libc.so.6")
    for name in LOADED_LATER:
        libraries.setdefault(name, system / name)
    for name, path in libraries.items():
        if path.is_relative_to(root.resolve()):
            continue
        # The loader has a fixed path. The others go next to libc, where they are found without a cache.
        destination = root / str(path if name.startswith("/") else system / name).lstrip("/")
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path.resolve(), destination)


def linked(program: Path) -> tuple[dict[str, Path], list[str]]:
    """Return the libraries of a program by name (the loader by path), and the names that were not found."""
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True)
    found: dict[str, Path] = {}
    for line in done.stdout.splitlines():
        if match := re.match(r"\s*(\S+) => (/\S+) \(", line):
            found[match[1]] = Path(match[2])
        elif match := re.match(r"\s*(/\S+) \(", line):
            found[match[1]] = Path(match[1])
    return found, re.findall(r"^\s*(\S+) => not found", done.stdout, re.MULTILINE)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


if __name__ == "__main__":
    main()
