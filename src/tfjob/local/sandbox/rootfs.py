"""A container's root, made of the host's own files and the pod's volumes, in a private mount namespace.

The root is a plain folder of the pod: every entry of the host's / is bound into it, and it keeps the other files that
the container writes to /. A volume whose path does not exist needs a mount point. In a folder of the system, a layer (a
folder of the pod with binds of the same entries) covers that folder, so the host never changes. In a folder of the user
a layer would hide new files from them, so the mount point is created on the host and removed afterwards.

    DIRECTORY/root     the skeleton of /, and the container's own writes
    DIRECTORY/layers/  one folder for each covered folder
    DIRECTORY/journal  JSON lines: which entries are only mount points (removed by rmdir or unlink, never entered)

Volumes in memory, including secrets, are mounted once for the whole pod. At levels without mounts they are folders,
which are removed with the pod.
"""

from __future__ import annotations

import base64
import errno
import fcntl
import json
import os
import stat

from . import pod_files, syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from .pod_spec import Mount, SecretFile, Tmpfs


_MANY_ENTRIES = 500  # larger folders are covered by an overlay (0.5 ms), not by a bind per entry (0.1 ms and more each)
_SYSTEM = frozenset(
    ["bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "snap", "sys", "usr", "var"]
)
_SHARED = frozenset(("/home", "/media", "/mnt", "/opt", "/srv", "/tmp"))  # noqa: S108 -- only named
_POINT_TEXT = "Mount point of a running tfjob pod, removed when it ends. Made below: "
_POINT_NAME = ".tfjob-mount-point"


def build(directory: str, mounts: Iterable[Mount], *, keep: Iterable[str] = ()) -> str:
    """Assemble a container's root in a private mount namespace; overlays do not hide the host paths in `keep`."""
    root = _Root(directory, [directory, *keep])
    root.cover_slash()
    for mount in sorted(mounts, key=lambda mount: mount["target"].rstrip("/").count("/")):
        root.place(mount["source"], mount["target"], read_only=mount["readOnly"])
    return root.path


def resolve(root: str, path: str) -> str:
    """Resolve the symbolic links of `path` as a process with this root would; missing parts are kept."""
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
    """A root under construction; `_ground` records whether a path belongs to the pod, the host or a volume."""

    def __init__(self, directory: str, keep: list[str]) -> None:
        self.path = f"{directory}/root"
        self._directory = directory
        self._keep = keep
        self._layers = 0
        self._ground: dict[str, str] = {}
        os.makedirs(self.path, exist_ok=True)
        os.makedirs(f"{directory}/layers", exist_ok=True)

    def cover_slash(self) -> None:
        """Fill the root with the entries of / and a new /proc."""
        os.chmod(self.path, 0o755)  # noqa: S103 -- the mode of /
        syscalls.bind(self.path, self.path)  # pivot_root needs a mount point
        self._mirror("/", "", self.path)
        self._ground["/"] = "pod"
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
            with open(f"{point}/{_POINT_NAME}" if is_folder else point, "w") as file:
                file.write(f"{_POINT_TEXT}{above}\n")
            self._hold_point(point, inside)
        elif not is_folder:
            _touch(point)

    def _ground_of(self, inside: str) -> str:
        while inside not in self._ground:
            inside = os.path.dirname(inside)
        return self._ground[inside]

    def _hold_point(self, point: str, inside: str) -> None:
        """Lock a mount point that tfjob created on the host: removing it would unmount the volume."""
        if self._ground_of(inside) != "host" or _made_below(point) is None:
            return
        self._journal({"point": inside})
        held = os.open(point, os.O_RDONLY | os.O_CLOEXEC)  # open until this process ends
        fcntl.flock(held, fcntl.LOCK_SH)

    def _cover(self, inside: str) -> None:
        layer = f"{self._directory}/layers/{self._layers}"
        self._layers += 1
        os.makedirs(layer, exist_ok=True)
        covered = self.path + inside
        os.chmod(layer, stat.S_IMODE(os.stat(covered).st_mode) | 0o700)
        if len(os.listdir(covered)) > _MANY_ENTRIES and self._overlay(inside, layer):
            return
        self._mirror(covered, inside, layer)
        syscalls.bind(layer, covered)
        self._ground[inside] = "pod"

    def _overlay(self, inside: str, layer: str) -> bool:
        """Cover a large folder with an overlay; return False if it would hide a mount or the kernel rejects it."""
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

    def _mirror(self, source: str, inside: str, layer: str) -> None:
        """Recreate every entry of `source` in `layer`: links as links, everything else as binds."""
        entries = [entry for entry in os.scandir(source) if _is_visible(entry, inside)]
        # The entry that contains the pod comes first: a recursive bind of it would copy all earlier mounts.
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
            except OSError as error:  # another user's FUSE mount, or an entry that has been removed
                if error.errno not in (errno.EACCES, errno.ENOENT):
                    raise
            self._ground.setdefault(f"{inside}/{entry.name}", "host")

    def _journal(self, line: dict[str, object]) -> None:
        with open(f"{self._directory}/journal", "a") as journal:
            journal.write(json.dumps(line) + "\n")


def _is_visible(entry: os.DirEntry[str], inside: str) -> bool:
    """Return whether a container sees this entry of the folder `inside`: /dev has no disks and no consoles."""
    if inside != "/dev":
        return f"{inside}/{entry.name}" != "/proc"
    is_console = entry.name.startswith(("tty", "vcs")) and entry.name != "tty"
    return not is_console and not stat.S_ISBLK(entry.stat(follow_symlinks=False).st_mode)


def _belongs_to_user(path: str) -> bool:
    """Return whether a folder of the host is the user's own; those of the system do not count, even for root."""
    if os.stat(path).st_uid != os.geteuid():
        return False
    return os.geteuid() != 0 or (path not in _SHARED and path.split("/")[1] not in _SYSTEM)


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))


class RootfsBusyError(Exception):
    """A folder cannot be removed because something is mounted below it."""


def mount_points() -> list[str]:
    try:
        with open("/proc/self/mountinfo", "rb") as mountinfo:
            fields = [line.split(b" ")[4] for line in mountinfo]
    except FileNotFoundError:  # no mount namespaces on this system
        return []
    # The kernel writes blanks and backslashes as octal escapes, which Python's codec decodes.
    return [os.fsdecode(field.decode("unicode_escape").encode("latin-1")) for field in fields]


def remove_rootfs(pod_dir: str | os.PathLike[str]) -> None:
    """Remove the roots of a pod that is over; raise RootfsBusyError if something is still mounted."""
    _check_unmounted(pod_dir)
    base = f"{os.path.realpath(pod_dir)}/rootfs"
    if os.path.isdir(base):
        for name in os.listdir(base):
            remove_container_root(f"{base}/{name}")
        os.rmdir(base)


def _check_unmounted(folder: str | os.PathLike[str]) -> None:
    above = f"{os.path.realpath(folder)}/"
    for point in mount_points():
        if point.startswith(above):
            raise RootfsBusyError(f"cannot remove {folder}: {point} is still mounted")


def remove_container_root(directory: str) -> None:
    """Remove one container's root: mount points only with rmdir and unlink, its own files recursively."""
    if not os.path.isdir(directory):
        return
    _check_unmounted(directory)
    release_points(directory)
    for line in _journal_lines(directory):
        for name in line.get("entries", ()):
            point = f"{directory}/{line['skeleton']}/{name}"
            if os.path.isdir(point) and not os.path.islink(point):
                os.rmdir(point)
            else:
                pod_files.remove(point)
    for name in ("root", "layers", "journal"):
        remove_tree(f"{directory}/{name}")
    os.rmdir(directory)


def release_points(directory: str) -> None:
    """Remove the mount points that were created on the host for this container and that no other pod uses."""
    for line in _journal_lines(directory):
        if "point" in line:
            _release_point(line["point"])


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
    except OSError:
        pass  # another pod uses it, or its folder contains other files
    finally:
        os.close(held)


def _made_below(point: str) -> str | None:
    """Return the folder below which tfjob created `point`; None if tfjob did not create it."""
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


def remove_tree(path: str) -> None:
    """Remove a file or folder tree without following links or leaving its file system."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(path)
        return
    if status.st_uid == os.geteuid() and status.st_mode & 0o700 != 0o700:
        os.chmod(path, 0o700)  # the job has restricted it
    for entry in os.scandir(path):
        if entry.stat(follow_symlinks=False).st_dev != status.st_dev:
            raise RootfsBusyError(f"cannot remove {entry.path}: it is on another file system")
        remove_tree(entry.path)
    os.rmdir(path)


def make_memory_volumes(
    volumes: Iterable[Tmpfs], files: Mapping[str, Mapping[str, SecretFile]], *, mounted: bool
) -> None:
    """Create the volumes with their folders and files; `files` are those of secret volumes, by volume and path."""
    for volume in volumes:
        path = volume["path"]
        os.makedirs(path, mode=0o700, exist_ok=True)
        if mounted:
            mode = "mode=0755" if volume["secret"] else "mode=1777"
            size = f",size={volume['size']}" if volume["size"] else ""
            syscalls.mount("tmpfs", path, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, mode + size)
        for folder in volume.get("folders", []):
            os.makedirs(f"{path}/{folder}", exist_ok=True)
        for name, file in files.get(volume["name"], {}).items():
            _write_secret(f"{path}/{name}", base64.b64decode(file["data"]), file["mode"])
        if mounted and volume["secret"]:
            syscalls.make_read_only(path)


def remove_memory_volumes(volumes: Iterable[Tmpfs]) -> Iterator[str]:
    """Remove the volumes that were not mounted; yield the problems."""
    for volume in volumes:
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
