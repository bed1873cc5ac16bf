"""A network namespace with loopback only, for a whole test run: the daemon, the model and claude share it.

`python -m tests.realclaude.netns ARGV…` enters a fresh namespace, brings `lo` up and becomes ARGV, with the
same pid. Where the machine does not allow namespaces it says so on stderr and becomes ARGV all the same: the
tests then still talk to loopback only, but nothing holds them to it. Linux only, by its nature; nothing here is
imported by the package.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

MARK = "REALCLAUDE_NETNS"
"""Set to 1 in the environment of what runs inside, to 0 where no namespace was to be had."""

_MODULE = "tests.realclaude.netns"
_ENTER = "--inside"


def unshare_prefix() -> list[str] | None:
    """The command that enters a fresh network namespace, or None where this machine allows none.

    Root needs no user namespace; anybody else maps itself to root in one of its own, as far as the kernel lets it.
    """
    unshare = shutil.which("unshare")
    if unshare is None:
        return None
    for prefix in ([unshare, "--net"], [unshare, "--user", "--map-current-user", "--keep-caps", "--net"]):
        probe = [*prefix, sys.executable, "-m", _MODULE, _ENTER, "true"]
        if subprocess.run(probe, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=30).returncode == 0:
            return prefix
    return None


def bring_loopback_up() -> None:
    """Bring `lo` up by ioctl, so that `ip` need not be installed.

    Raises: OSError where that is not allowed.
    """
    import fcntl
    import socket
    import struct

    get_flags, set_flags, up_and_running = 0x8913, 0x8914, 0x1 | 0x40
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        (flags,) = struct.unpack_from("16xh", fcntl.ioctl(control, get_flags, request))
        fcntl.ioctl(control, set_flags, struct.pack("16sh14x", b"lo", flags | up_and_running))


def run_in_netns(argv: Sequence[str]) -> None:
    """Become `argv` inside a fresh namespace, or outside of one where none is to be had. Never returns."""
    prefix = unshare_prefix()
    if prefix is None:
        print("netns: no network namespace allowed here; running without one", file=sys.stderr, flush=True)
        os.environ[MARK] = "0"
        os.execvp(argv[0], list(argv))
    inside = [*prefix, sys.executable, "-m", _MODULE, _ENTER, *argv]
    os.execvp(inside[0], inside)


def main(argv: Sequence[str]) -> int:
    """Run `argv` in a namespace; already inside of one, just run it."""
    if argv[:1] == [_ENTER]:
        bring_loopback_up()
        os.environ[MARK] = "1"
        os.execvp(argv[1], list(argv[1:]))
    if not argv:
        print("usage: python -m tests.realclaude.netns PROGRAM [ARGUMENT...]", file=sys.stderr)
        return 2
    if os.environ.get(MARK) == "1":
        os.execvp(argv[0], list(argv))
    run_in_netns(argv)
    return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
