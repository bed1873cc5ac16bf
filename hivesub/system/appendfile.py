"""Appends to files that others choose: whole or not at all, to regular files only, and off the reactor's thread.

Owns the blocking append and the threads for it. What is appended, and how long a caller waits, is left to the
callers: a full disk is an error at once, but a dead network mount may block for ever, so nothing here may run on the
reactor's thread.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IReactorFromThreads
from twisted.python.failure import Failure

from hivesub.errors import AppendError

# Their files count as regular, yet writing to one is an order to the kernel.
_KERNELS = frozenset(
    "binfmt_misc bpf cgroup cgroup2 configfs debugfs efivarfs fusectl proc pstore resctrl securityfs selinuxfs smackfs "
    "sysfs tracefs".split()
)

InThread = Callable[..., Deferred[Any]]
"""Calls a blocking function with arguments in a thread; fires with what it gave. Cancelling forgets the call; the
thread goes on."""


def append_whole(path: str, data: bytes, within: str | None = None) -> None:
    """Append bytes to a regular file with one write; one of the kernel's, such as those in /proc, is none. Blocking.

    They begin on a line of their own: where the file's last line has no newline, one goes in front of them.
    A missing file is made (0644 less the umask), a missing folder is not. Symlinks are followed, unless `within` is
    given: then the path is resolved first and opened without following any, so that a link put there meanwhile leads
    nowhere.

    :param within: the directory that the resolved path must lie inside of.
    :raises AppendError: naming the path and why. The file is as it was, or the text says that a part was left in it.
    """
    try:
        fd = _open(path) if within is None else _open_within(path, within)
        try:
            _write(fd, path, data)
        finally:
            os.close(fd)
    except OSError as e:
        raise AppendError(_told(path, _why(path, e))) from e
    except ValueError as e:  # a NUL, or characters that no file name has
        raise AppendError(_told(path, "this is not a usable path")) from e


def resolved_within(path: str, directory: str) -> str | None:
    """The path with its symlinks resolved when it lies inside the directory, else None. Never raises; may block on a
    dead mount."""
    try:
        real, root = os.path.realpath(path), os.path.realpath(directory)
        return real if real != root and os.path.commonpath([real, root]) == root else None
    except (OSError, ValueError):
        return None


def _open(path: str) -> int:
    try:
        # Looked at before it is opened: opening some devices does something, and a FIFO without a reader is no "no
        # such device".
        _require_regular(path, os.stat(path))
    except FileNotFoundError:
        pass
    return _checked(_open_to_append(path), path)


def _open_within(path: str, within: str) -> int:
    real = resolved_within(path, within)
    if real is None:
        raise AppendError(_told(path, f"it lies outside {within}"))
    root = os.path.realpath(within)
    *folders, name = os.path.relpath(real, root).split(os.sep)
    no_follow = getattr(os, "O_NOFOLLOW", 0)
    opened = [os.open(root, _folder_flags())]
    try:
        for folder in folders:
            opened.append(os.open(folder, _folder_flags() | no_follow, dir_fd=opened[-1]))
        try:
            _require_regular(path, os.stat(name, dir_fd=opened[-1], follow_symlinks=False))
        except FileNotFoundError:
            pass
        return _checked(_open_to_append(name, no_follow, dir_fd=opened[-1]), path)
    finally:
        for fd in opened:
            os.close(fd)


def _open_to_append(path: str, flags: int = 0, dir_fd: int | None = None) -> int:
    """A descriptor to append through, and to read the end of the file by where it may be read."""
    for name in ("O_APPEND", "O_CREAT", "O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY"):
        flags |= getattr(os, name, 0)
    try:
        return os.open(path, flags | os.O_RDWR, 0o644, dir_fd=dir_fd)
    except PermissionError:
        return os.open(path, flags | os.O_WRONLY, 0o644, dir_fd=dir_fd)


def _checked(fd: int, path: str) -> int:
    """The descriptor, closed again when what was opened is no regular file after all."""
    try:
        _require_regular(path, os.fstat(fd))
    except BaseException:
        os.close(fd)
        raise
    return fd


def _require_regular(path: str, seen: os.stat_result) -> None:
    if stat.S_ISREG(seen.st_mode):
        _require_no_kernels(path, seen.st_dev)
        return
    kinds = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a FIFO", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
    raise AppendError(
        _told(path, f"it is {kinds.get(stat.S_IFMT(seen.st_mode), 'no file')}, and only regular files are appended to")
    )


def _require_no_kernels(path: str, device: int) -> None:
    # Of a file on a disk there is nothing to look up: these have no device of a driver's, which is major 0.
    kind = None if os.major(device) else _kernels_mounts().get(device)
    if kind is not None:
        raise AppendError(_told(path, f"it is a file of the kernel ({kind}), and only regular files are appended to"))


def _kernels_mounts() -> dict[int, str]:
    """The devices of the file systems that are the kernel's own, with their types; read anew, as mounts come and go."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
            lines = [line.split() for line in mounts]
    except OSError:  # a system without /proc
        return {}
    # id, parent, major:minor, root, mount point, options, any number of tags, "-", type, source, options (proc(5)).
    typed = ((line[2], line[line.index("-") + 1]) for line in lines)
    return {os.makedev(*map(int, device.split(":"))): kind for device, kind in typed if kind in _KERNELS}


def _write(fd: int, path: str, data: bytes) -> None:
    if _ends_within_a_line(fd):
        data = b"\n" + data
    written = os.write(fd, data)
    if written == len(data):
        return
    # A full disk takes a part. O_APPEND left the offset at the end of that part, so a file that ends there has grown
    # by nobody else.
    end = os.lseek(fd, 0, os.SEEK_CUR)
    if os.fstat(fd).st_size == end:
        os.ftruncate(fd, end - written)
        raise AppendError(_told(path, "there was no room for all of it, so nothing was added"))
    raise AppendError(
        _told(path, f"there was room for {written} of {len(data)} bytes only, and they stayed: others wrote after them")
    )


def _ends_within_a_line(fd: int) -> bool:
    size = os.fstat(fd).st_size
    try:
        return size > 0 and os.pread(fd, 1, size - 1) != b"\n"
    except OSError:  # it may be written to but not be read
        return False


def _folder_flags() -> int:
    return os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)


def _why(path: str, e: OSError) -> str:
    folder = os.path.dirname(path) or "."
    if isinstance(e, (FileNotFoundError, NotADirectoryError)) and not os.path.isdir(folder):
        return f"the folder {folder} does not exist"
    return e.strerror or type(e).__name__


def _told(path: str, why: str) -> str:
    # The text goes into JSON, and a path may hold what UTF-8 cannot carry.
    return f"cannot append to {path}: {why}".encode("utf-8", "replace").decode()


@define(eq=False)
class DaemonThreads:
    """An `InThread` whose threads never hold up the daemon's exit: one a call, at most `limit` at a time.

    A pool would not do: its stop waits for its threads, and one that is blocked on a dead mount never comes back.

    :raises OSError: (as a failure) when `limit` calls are still blocked.
    """

    _reactor: IReactorFromThreads
    _limit: int = 64
    _running: int = field(default=0, init=False)

    def __call__(self, function: Callable[..., Any], *args: object) -> Deferred[Any]:
        if self._running >= self._limit:
            return fail(OSError(f"{self._running} file operations are blocked already"))
        done: Deferred[Any] = Deferred()
        thread = threading.Thread(target=self._run, args=(done, function, args), name="hivesub-file", daemon=True)
        try:
            thread.start()
        except RuntimeError as e:
            return fail(OSError(str(e)))
        self._running += 1
        return done

    def _run(self, done: Deferred[Any], function: Callable[..., Any], args: tuple[object, ...]) -> None:
        try:
            outcome = function(*args)
        except BaseException:
            outcome = Failure()
        self._reactor.callFromThread(self._finish, done, outcome)

    def _finish(self, done: Deferred[Any], outcome: object) -> None:
        self._running -= 1
        if isinstance(outcome, Failure):
            done.errback(outcome)
        else:
            done.callback(outcome)
