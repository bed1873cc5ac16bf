"""A daemon in a pid namespace of its own: it is PID 1 there, and sees no process but what it started."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess

import psutil
import pytest

from tests.support.daemon import DOWN_S, Daemon


def own_namespace() -> list[str]:
    """The command that begins one."""
    unshare = shutil.which("unshare")
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    prefix = [str(unshare), *as_root, "--pid", "--fork", "--mount-proc", "--kill-child"]
    if unshare is None or subprocess.run([*prefix, "true"], capture_output=True, timeout=30, check=False).returncode:
        pytest.fail("no pid namespace is to be had here: run as root, or allow user namespaces", pytrace=False)
    return prefix


class FirstProcess(Daemon):
    """A daemon behind `unshare`, which itself ignores signals: they go to the one process below it."""

    @property
    def first(self) -> psutil.Process:
        """The daemon, as it is seen from outside."""
        (child,) = psutil.Process(self.pid).children()
        return child

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self._process is not None
        if self._process.poll() is None:
            self.first.send_signal(number)
        return self._process.wait(DOWN_S)

    def zombies(self) -> list[int]:
        """Its children that nobody has waited for."""
        return [child.pid for child in self.first.children() if child.status() == psutil.STATUS_ZOMBIE]
