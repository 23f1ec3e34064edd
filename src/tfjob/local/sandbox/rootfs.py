"""A container's root, made of the host's own files and the pod's volumes, in a private mount namespace.

The root is a plain directory of the pod: every entry of the host's / is bound into it, and what the container writes
beside them stays there. A volume whose path does not exist needs a mount point: in a directory of the system we put a
layer (a directory of the pod holding binds of the same entries) over it, so the host never changes; in a directory of
the user a layer would hide new files from them, so we make the mount point on the host and remove it afterwards.

    DIRECTORY/root     the skeleton of /, and the container's own writes
    DIRECTORY/layers/  one directory for each covered directory
    DIRECTORY/journal  JSON lines: which entries are only mount points (removed by rmdir or unlink, never entered)

`MemoryVolumes` holds the pod's volumes in memory, secrets among them. Where nothing can be mounted they are folders
that are removed with the pod.
"""

from __future__ import annotations

import base64
import errno
import fcntl
import json
import os
import stat

from . import syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from .pod_spec import Mount, SecretFile, Tmpfs


_MANY_ENTRIES = 500  # above it an overlay (0.5 ms) replaces one bind for each entry (0.1 ms each, and growing)
_SYSTEM = frozenset(
    ["bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "snap", "sys", "usr", "var"]
)
_SHARED = frozenset(("/home", "/media", "/mnt", "/opt", "/srv", "/tmp"))  # noqa: S108 -- only named
_POINT_TEXT = "Mount point of a running tfjob pod, removed when it ends. Made below: "
_POINT_NAME = ".tfjob-mount-point"


def build(directory: str, mounts: Iterable[Mount], *, fresh_proc: bool, keep: Iterable[str] = ()) -> str:
    """Assemble a container's root below `directory` and return its path; needs a private mount namespace.

    `keep` names host paths that must stay the host's own even where an overlay covers their parent.
    """
    root = _Root(directory, [directory, *keep])
    root.cover_slash(fresh_proc)
    for mount in sorted(mounts, key=lambda mount: mount["target"].rstrip("/").count("/")):
        root.place(mount["source"], mount["target"], read_only=mount["readOnly"])
    return root.path


def resolve(root: str, path: str) -> str:
    """Follow the symbolic links of `path` as a process whose root is `root` would; missing parts are kept."""
    done, todo, links = "", path.split("/")[::-1], 0
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            done = done.rpartition("/")[0]
            continue
        here = f"{done}/{part}"
        if not os.path.islink(root + here):
            done = here
            continue
        links += 1
        if links > 40:
            raise OSError(errno.ELOOP, f"{path}: {os.strerror(errno.ELOOP)}")
        link = os.readlink(root + here)
        if link.startswith("/"):
            done = ""
        todo.extend(link.split("/")[::-1])
    return done or "/"


class _Root:
    """The root while it is put together; `_ground` knows on what each known path stands: pod, host or volume."""

    def __init__(self, directory: str, keep: list[str]) -> None:
        self.path = f"{directory}/root"
        self._directory = directory
        self._keep = keep
        self._layers = 0
        self._ground: dict[str, str] = {}
        os.makedirs(self.path, exist_ok=True)
        os.makedirs(f"{directory}/layers", exist_ok=True)

    def cover_slash(self, fresh_proc: bool) -> None:
        """Fill the root with the entries of /."""
        os.chmod(self.path, 0o755)  # noqa: S103 -- as a root is
        syscalls.bind(self.path, self.path)  # pivot_root wants a mount point
        skip = {"proc"} if fresh_proc else set()
        self._mirror("/", "", self.path, skip)
        self._ground["/"] = "pod"
        if fresh_proc:
            os.makedirs(f"{self.path}/proc", exist_ok=True)
            flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
            syscalls.mount("proc", f"{self.path}/proc", "proc", flags)
            self._ground["/proc"] = "host"

    def place(self, source: str, target: str, *, read_only: bool) -> None:
        """Mount `source` at the container's `target`, whose parents may be missing."""
        if not os.path.exists(source):
            raise FileNotFoundError(errno.ENOENT, f"cannot mount {target}: {source} does not exist")
        inside = resolve(self.path, target)
        if inside == "/":
            raise OSError(errno.EINVAL, f"cannot mount {target}: a volume cannot replace the root folder")
        is_folder = os.path.isdir(source)
        if not os.path.lexists(self.path + inside):
            self._make_point(inside, is_folder)
        else:
            if os.path.isdir(self.path + inside) != is_folder:
                kinds = "a file, but the volume is a folder" if is_folder else "a folder, but the volume is a file"
                raise OSError(errno.ENOTDIR, f"cannot mount {target}: it is {kinds}")
            self._hold_point(self.path + inside, inside)
        syscalls.bind(source, self.path + inside)
        if read_only:
            syscalls.make_read_only(self.path + inside)
        self._ground[inside] = "volume"

    def _make_point(self, inside: str, is_folder: bool) -> None:
        above = os.path.dirname(inside)
        while not os.path.lexists(self.path + above):
            above = os.path.dirname(above)
        if not os.path.isdir(self.path + above):
            raise NotADirectoryError(errno.ENOTDIR, f"cannot mount {inside}: {above} is not a folder")
        on_host = self._ground_of(above) == "host"
        users = on_host and _belongs_to_user(above)
        if on_host and not users:
            self._cover(above)
        point = self.path + inside
        if users:
            self._journal({"point": inside})
        os.makedirs(point if is_folder else os.path.dirname(point), exist_ok=True)
        if users:
            _write(f"{point}/{_POINT_NAME}" if is_folder else point, f"{_POINT_TEXT}{above}\n")
            self._hold_point(point, inside)
        elif not is_folder:
            _touch(point)

    def _ground_of(self, inside: str) -> str:
        while inside not in self._ground:
            inside = os.path.dirname(inside)
        return self._ground[inside]

    def _hold_point(self, point: str, inside: str) -> None:
        """Keep others from removing a mount point of ours on the host: removing it would unmount our volume."""
        if self._ground_of(inside) != "host" or _made_below(point) is None:
            return
        self._journal({"point": inside})
        held = os.open(point, os.O_RDONLY | os.O_CLOEXEC)  # open until this process ends
        fcntl.flock(held, fcntl.LOCK_SH)

    def _cover(self, inside: str) -> None:
        """Put a layer of ours over a directory of the host."""
        layer = f"{self._directory}/layers/{self._layers}"
        self._layers += 1
        os.makedirs(layer, exist_ok=True)
        covered = self.path + inside
        os.chmod(layer, stat.S_IMODE(os.stat(covered).st_mode) | 0o700)
        if len(os.listdir(covered)) > _MANY_ENTRIES and self._overlay(inside, layer):
            return
        self._mirror(covered, inside, layer, set())
        syscalls.bind(layer, covered)
        self._ground[inside] = "pod"

    def _overlay(self, inside: str, layer: str) -> bool:
        """Cover a large directory by an overlay; False where it would hide a mount or the kernel refuses."""
        covered = self.path + inside
        if any(point.startswith(f"{inside}/") for point in mount_points()):
            return False
        upper, work = f"{layer}.upper", f"{layer}.work"
        os.makedirs(upper, exist_ok=True)
        os.makedirs(work, exist_ok=True)
        options = f"lowerdir={covered},upperdir={upper},workdir={work}"
        if os.geteuid() != 0:
            options += ",userxattr"
        kept = [
            (entry.path, f"{covered}/{entry.name}")
            for entry in os.scandir(inside)
            if any(f"{path}/".startswith(f"{entry.path}/") for path in self._keep)
        ]
        try:
            syscalls.mount("overlay", covered, "overlay", 0, options)
        except OSError:
            return False
        for source, target in kept:
            syscalls.bind(source, target)
        self._ground[inside] = "pod"
        return True

    def _mirror(self, source: str, inside: str, layer: str, skip: set[str]) -> None:
        """Recreate every entry of `source` in `layer`: links as links, all else as binds."""
        entries = [entry for entry in os.scandir(source) if entry.name not in skip and _belongs(entry, inside)]
        # The entry that holds the pod first: a recursive bind of it would copy every mount made before.
        entries.sort(key=lambda entry: not f"{self._directory}/".startswith(f"{inside}/{entry.name}/"))
        self._journal({"skeleton": os.path.relpath(layer, self._directory), "entries": [e.name for e in entries]})
        for entry in entries:
            target = f"{layer}/{entry.name}"
            if entry.is_symlink():
                if not os.path.lexists(target):
                    os.symlink(os.readlink(entry.path), target)
                continue
            if entry.is_dir():
                os.makedirs(target, exist_ok=True)
            else:
                _touch(target)
            try:
                syscalls.bind(entry.path, target)
            except OSError as error:  # another user's FUSE mount, or an entry that is gone by now
                if error.errno not in (errno.EACCES, errno.ENOENT):
                    raise
            self._ground.setdefault(f"{inside}/{entry.name}", "host")

    def _journal(self, line: dict[str, object]) -> None:
        with open(f"{self._directory}/journal", "a") as journal:
            journal.write(json.dumps(line) + "\n")


def _belongs(entry: os.DirEntry[str], inside: str) -> bool:
    """Whether a container sees this entry: a container's /dev has no disks and no consoles."""
    if inside != "/dev":
        return True
    if entry.name.startswith(("tty", "vcs")) and entry.name != "tty":
        return False
    return not stat.S_ISBLK(entry.stat(follow_symlinks=False).st_mode)


def _belongs_to_user(path: str) -> bool:
    """Whether a directory of the host is the user's own; root owns the system's too, which are not meant."""
    if os.stat(path).st_uid != os.geteuid():
        return False
    return os.geteuid() != 0 or (path not in _SHARED and path.split("/")[1] not in _SYSTEM)


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


# Removal


class RootfsBusyError(Exception):
    """Something is still mounted below the directory that was to be removed."""


def mount_points() -> list[str]:
    """Where something is mounted, as this process sees it."""
    try:
        with open("/proc/self/mountinfo", "rb") as mountinfo:
            fields = [line.split(b" ")[4] for line in mountinfo]
    except FileNotFoundError:  # no mount namespaces on this system
        return []
    # The kernel writes blanks and backslashes as octal escapes, which Python's codec undoes.
    return [os.fsdecode(field.decode("unicode_escape").encode("latin-1")) for field in fields]


def remove_rootfs(pod_dir: str | os.PathLike[str]) -> None:
    """Remove what `build` made for any container of a pod that is over; refuses while anything is mounted there."""
    base = f"{os.path.realpath(pod_dir)}/rootfs"
    busy = [point for point in mount_points() if point.startswith(f"{os.path.realpath(pod_dir)}/")]
    if busy:
        raise RootfsBusyError(f"cannot remove {pod_dir}: {busy[0]} is still mounted")
    if not os.path.isdir(base):
        return
    for name in os.listdir(base):
        remove_container_root(f"{base}/{name}")
    os.rmdir(base)


def remove_container_root(directory: str) -> None:
    """Remove one container's root: its mount points by rmdir and unlink only, its own files with care."""
    if not os.path.isdir(directory):
        return
    real = os.path.realpath(directory)
    if any(point.startswith(f"{real}/") for point in mount_points()):
        raise RootfsBusyError(f"cannot remove {directory}: something is still mounted below it")
    release_points(directory)
    for line in _journal_lines(directory):
        for name in line.get("entries", ()):
            _remove_mount_point(f"{directory}/{line['skeleton']}/{name}")
    for name in ("root", "layers", "journal"):
        remove_tree(f"{directory}/{name}")
    os.rmdir(directory)


def release_points(directory: str) -> None:
    """Remove the mount points that this container needed on the host and that no other pod uses."""
    for line in _journal_lines(directory):
        point = line.get("point")
        if point:
            _release_point(point)


def _release_point(point: str) -> None:
    above = _made_below(point)
    if above is None:
        return
    held = os.open(point, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.isdir(point):
            if os.listdir(point) != [_POINT_NAME]:
                return
            os.unlink(f"{point}/{_POINT_NAME}")
            os.rmdir(point)
        else:
            os.unlink(point)
        parent = os.path.dirname(point)
        while parent != above:
            os.rmdir(parent)
            parent = os.path.dirname(parent)
    except OSError:  # another pod uses it, or somebody put files beside it: then it stays
        return
    finally:
        os.close(held)


def _made_below(point: str) -> str | None:
    """The directory below which `point` was made by us, None for anything that is not ours."""
    try:
        path = f"{point}/{_POINT_NAME}" if os.path.isdir(point) else point
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        with open(path, errors="replace") as file:
            text = file.read(len(_POINT_TEXT) + 4096)
    except OSError:
        return None
    return text[len(_POINT_TEXT) :].rstrip("\n") if text.startswith(_POINT_TEXT) else None


def _journal_lines(directory: str) -> list[dict[str, Any]]:
    try:
        with open(f"{directory}/journal") as journal:
            return [json.loads(line) for line in journal if line.endswith("\n")]
    except FileNotFoundError:
        return []


def _remove_mount_point(path: str) -> None:
    """Remove an entry that was only there to be mounted on; a mount or a content that we do not know stops us."""
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            os.rmdir(path)
        else:
            os.unlink(path)
    except FileNotFoundError:
        pass


def remove_tree(path: str) -> None:
    """Remove a file or directory tree without following a link or leaving its file system."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(path)
        return
    if status.st_uid == os.geteuid() and status.st_mode & 0o700 != 0o700:
        os.chmod(path, 0o700)  # the job made it so; it is ours to remove
    for entry in os.scandir(path):
        if entry.stat(follow_symlinks=False).st_dev != status.st_dev:
            raise RootfsBusyError(f"cannot remove {entry.path}: it is on another file system")
        remove_tree(entry.path)
    os.rmdir(path)


class MemoryVolumes:
    """The volumes of one pod; `files` are those of the secret ones, by volume and path."""

    def __init__(
        self, volumes: Sequence[Tmpfs], files: Mapping[str, Mapping[str, SecretFile]], *, mounted: bool
    ) -> None:
        self._volumes = volumes
        self._files = files
        self._mounted = mounted

    def make(self) -> None:
        """Mount them, with their folders and files."""
        for volume in self._volumes:
            path = volume["path"]
            os.makedirs(path, mode=0o700, exist_ok=True)
            if self._mounted:
                mode = "mode=0755" if volume["secret"] else "mode=1777"
                size = f",size={volume['size']}" if volume["size"] else ""
                syscalls.mount("tmpfs", path, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, mode + size)
            for folder in volume.get("folders", []):
                os.makedirs(f"{path}/{folder}", exist_ok=True)
            for name, file in self._files.get(volume["name"], {}).items():
                _write_secret(f"{path}/{name}", base64.b64decode(file["data"]), file["mode"])
            if self._mounted and volume["secret"]:
                syscalls.make_read_only(path)

    def remove(self) -> Iterator[str]:
        """Remove what was not mounted; says what stays."""
        for volume in self._volumes:
            try:
                remove_tree(volume["path"])
            except (OSError, RootfsBusyError) as error:
                yield f"volume {volume['name']} was not removed from disk: {error}"


def _write_secret(path: str, data: bytes, mode: int) -> None:
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(data)
        os.fchmod(fd, mode)
