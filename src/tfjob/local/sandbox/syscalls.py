"""System calls that Python does not offer, through ctypes; every failure is an OSError that names the call.

Every supervisor loads this module, so it imports only what the calls need.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct

_libc = ctypes.CDLL(None, use_errno=True)
_ARM64 = os.uname().machine in ("aarch64", "arm64")

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18

AUDIT_ARCH = 0xC00000B7 if _ARM64 else 0xC000003E
NR_BIND, NR_CONNECT = (200, 203) if _ARM64 else (49, 42)
_NR_PIVOT_ROOT, _NR_SECCOMP = (41, 277) if _ARM64 else (155, 317)
_NR_PIDFD_GETFD, _NR_MOUNT_SETATTR = 438, 442  # the same on every architecture

_MNT_DETACH = 2
_AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = -100, 0x8000, 1
_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 15, 36, 38
_SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_NEW_LISTENER = 1, 8

# The user namespace comes first: it gives the right to enter the others.
_ENTERED = {"user": NEWUSER, "pid": NEWPID, "ipc": NEWIPC, "uts": NEWUTS, "mnt": NEWNS}


def _checked(call: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result


def _syscall(call: str, number: int, *arguments: object) -> int:
    return _checked(call, _libc.syscall(ctypes.c_long(number), *arguments))


def _path(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)


# Namespaces


def unshare(flags: int) -> None:
    _checked(f"unshare({flags:#x})", _libc.unshare(flags))


def setns(fd: int, kind: int) -> None:
    _checked(f"setns({kind:#x})", _libc.setns(fd, kind))


def enter_namespaces(pid: int) -> None:
    """Enter every namespace of `pid` that differs from this process's; only children enter the pid namespace."""
    doors = []
    for name, kind in _ENTERED.items():
        path = f"/proc/{pid}/ns/{name}"
        if os.path.exists(path) and not os.path.samefile(path, f"/proc/self/ns/{name}"):
            doors.append((os.open(path, os.O_RDONLY | os.O_CLOEXEC), kind))
    for door, kind in doors:  # all are open by now: the mount namespace may have another /proc
        setns(door, kind)


def enter_user_namespace(extra: int = 0) -> None:
    """Enter a new user namespace in which this user keeps its uid and gid and may mount; needs a single thread."""
    uid, gid = os.geteuid(), os.getegid()
    unshare(NEWUSER | extra)
    for file, line in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        try:
            with open(f"/proc/self/{file}", "w") as handle:
                handle.write(line)
        except OSError as error:
            raise OSError(error.errno, f"write {file}: {os.strerror(error.errno or 0)}") from error


def fork_in_new_pid_namespace() -> int:
    """Fork a child that is PID 1 of a new pid namespace; later children stay in this process's namespace."""
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        unshare(NEWPID)
        pid = os.fork()
        if pid:
            setns(own, NEWPID)
        return pid
    finally:
        os.close(own)


def set_hostname(name: str) -> None:
    text = name.encode()
    _checked(f"sethostname({name})", _libc.sethostname(text, ctypes.c_size_t(len(text))))


# Mounts


def mount(source: str | None, target: str, fstype: str | None = None, flags: int = 0, data: str = "") -> None:
    result = _libc.mount(_path(source), _path(target), _path(fstype), ctypes.c_ulong(flags), _path(data or None))
    _checked(f"mount {source or fstype} on {target}", result)


def bind(source: str, target: str) -> None:
    """Bind `source` and everything mounted below it to `target`."""
    mount(source, target, None, _MS_BIND | _MS_REC)


def make_private() -> None:
    """Stop mount propagation, so that later mounts and unmounts do not reach the host."""
    mount(None, "/", None, _MS_REC | _MS_PRIVATE)


def make_read_only(path: str) -> None:
    """Make the mount at `path` and all mounts below it read-only, and keep their other flags (Linux 5.12)."""
    change = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY)  # attr_set, attr_clr, propagation, userns_fd
    size = ctypes.c_size_t(ctypes.sizeof(change))
    call = f"mount_setattr {path}"
    _syscall(call, _NR_MOUNT_SETATTR, _AT_FDCWD, _path(path), _AT_RECURSIVE, ctypes.byref(change), size)


def pivot_root(new_root: str) -> None:
    """Make the mount at `new_root` the root of this mount namespace and detach the old root."""
    os.chdir(new_root)
    _syscall(f"pivot_root {new_root}", _NR_PIVOT_ROOT, b".", b".")
    _checked("umount the old root", _libc.umount2(b".", _MNT_DETACH))  # it is stacked on the new one
    os.chdir("/")


# Processes


def _prctl(call: str, option: int, argument: int | bytes) -> None:
    value = argument if isinstance(argument, bytes) else ctypes.c_ulong(argument)
    _checked(f"prctl({call})", _libc.prctl(option, value, *[ctypes.c_ulong(0)] * 3))


def die_with_parent(signal_number: int) -> None:
    """Request a signal for the end of the thread that forked this process; children do not inherit this."""
    _prctl("PR_SET_PDEATHSIG", _PR_SET_PDEATHSIG, signal_number)


def become_subreaper() -> None:
    _prctl("PR_SET_CHILD_SUBREAPER", _PR_SET_CHILD_SUBREAPER, 1)


def restore_signals() -> None:
    """Give every signal its default action and unblock all: ignored and blocked signals survive fork and exec.

    Handlers that a library has set stay (faulthandler sets some); exec removes them.
    """
    _libc.signal.restype = ctypes.c_void_p
    for number in range(1, signal.NSIG):
        if signal.getsignal(number) in (signal.SIG_DFL, None):
            continue
        try:
            signal.signal(number, signal.SIG_DFL)
        except ValueError:  # Python allows this in the main thread only, the kernel in any thread
            _libc.signal(ctypes.c_int(number), None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def set_process_name(name: str) -> None:
    _prctl("PR_SET_NAME", _PR_SET_NAME, name.encode()[:15])


def pidfd_getfd(pidfd: int, fd: int) -> int:
    return _syscall("pidfd_getfd", _NR_PIDFD_GETFD, pidfd, fd, 0)


def seccomp_listener(instructions: list[tuple[int, int, int, int]]) -> int:
    """Filter this process's system calls with a BPF program; return the descriptor that receives notifications."""
    _prctl("PR_SET_NO_NEW_PRIVS", _PR_SET_NO_NEW_PRIVS, 1)  # without it only root may install a filter
    # struct sock_filter: code, jump if true, jump if false, operand; struct sock_fprog: length, pointer
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in instructions))
    program = struct.pack("HP", len(instructions), ctypes.addressof(code))
    flags = _SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_NEW_LISTENER
    return _syscall("seccomp(NEW_LISTENER)", _NR_SECCOMP, *flags, program)


def bind_socket(fd: int, address: bytes) -> int:
    """Bind a socket to a raw sockaddr; return 0 or the errno."""
    return 0 if _libc.bind(fd, address, len(address)) == 0 else ctypes.get_errno()


_IN_MODIFY, _IN_CLOSE_WRITE, _IN_MOVED_TO, _IN_CREATE, _IN_ONLYDIR = 0x2, 0x8, 0x80, 0x100, 0x1000000


def inotify() -> int:
    """Return a descriptor that becomes readable when something in a watched folder changes."""
    return _checked("inotify_init1", _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))


def inotify_watch(fd: int, folder: str) -> None:
    """Watch a folder for files that are created, written, moved there, or closed by a writer (also when it dies)."""
    mask = _IN_MODIFY | _IN_CLOSE_WRITE | _IN_MOVED_TO | _IN_CREATE | _IN_ONLYDIR
    _checked(f"inotify_add_watch({folder})", _libc.inotify_add_watch(fd, _path(folder), mask))
