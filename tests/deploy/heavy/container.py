"""A container in which systemd is PID 1: `systemd-nspawn` on a root of a few files and this machine's `/usr`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from tests.support.debian import need

ROOT = Path(__file__).parents[3]
INSIDE = Path(__file__).parent / "inside.py"
RUN_S = 240
USER = 990

TWISTD = """\
#!/bin/sh
export PYTHONPATH=/opt/src:/opt/site PYTHONDONTWRITEBYTECODE=1 LD_LIBRARY_PATH={python}/lib
exec {python}/bin/python3 -c 'from twisted.scripts.twistd import run; run()' "$@"
"""
# The wrapper that `write_wrapper` would write, for the container's paths.
CLAUDE = """\
#!/bin/sh
export LD_LIBRARY_PATH={python}/lib PYTHONPATH=/opt/src
exec {python}/bin/python3 -S -c 'import sys; from hivesub.standin.main import leave; leave(sys.argv[1:])' "$@"
"""
DRIVER = """\
[Unit]
DefaultDependencies=no
Wants=systemd-journald.service
After=systemd-journald.service
[Service]
Type=oneshot
Environment=PYTHONPATH=/opt/src:/opt/site PYTHONDONTWRITEBYTECODE=1 LD_LIBRARY_PATH={python}/lib
ExecStart={python}/bin/python3 -m {driver} /out/result.json
ExecStopPost=/usr/bin/systemctl poweroff --force
TimeoutStartSec=200
StandardOutput=append:/out/said
StandardError=inherit
"""
# In a control group of its own, below which systemd makes its own; and with a /run that is nobody else's.
ENTER = """
set -e
group="$1"; shift
mkdir -p "$group"
echo $$ > "$group/cgroup.procs"
mount -t tmpfs tmpfs /run
exec "$@"
"""


def python_inside() -> str:
    """Where the container has this Python: `/usr`, or a directory that is bound there."""
    return "/usr" if sys.base_prefix.startswith("/usr") else "/opt/python"


def run_inside(root: Path, files: dict[str, str], driver: str = "tests.deploy.heavy.inside") -> dict[str, Any]:
    """Boot, run the `main` of a driver, and give what it found.

    :param files: of the container, path to text; those below `opt/hivesub/bin` are executable.
    """
    nspawn = need("systemd-nspawn", "systemd-container")
    python = python_inside()
    out = root.parent / "out"
    out.mkdir()
    for directory in (
        "usr",
        "etc/systemd/system",
        "var/lib",
        "run",
        "tmp",
        "proc",
        "sys",
        "dev",
        "root",
        "srv",
        "home",
    ):
        (root / directory).mkdir(parents=True, exist_ok=True)
    for directory in ("opt/src", "opt/site", "opt/python", "out"):
        (root / directory).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    for name in ("ld.so.cache", "nsswitch.conf", "os-release"):
        shutil.copy(f"/etc/{name}", root / "etc" / name)
    shutil.copytree("/etc/alternatives", root / "etc/alternatives", symlinks=True)
    plain = {
        "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
        "etc/hosts": "127.0.0.1 localhost\n",
        "etc/passwd": f"root:x:0:0::/root:/bin/sh\nhivesub:x:{USER}:{USER}::/var/lib/hivesub/home:/usr/sbin/nologin\n",
        "etc/group": f"root:x:0:\nhivesub:x:{USER}:\n",
        "opt/hivesub/bin/twistd": TWISTD.format(python=python),
        "etc/systemd/system/driver.service": DRIVER.format(python=python, driver=driver),
    }
    for name, text in {**plain, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if name.startswith("opt/hivesub/bin/") else 0o644)
    binds = {"/opt/src": ROOT, "/opt/site": sysconfig.get_path("purelib")}
    if python != "/usr":
        binds["/opt/python"] = sys.base_prefix
    group = _cgroup2() / f"hivesub-test-{os.getpid()}"
    command = [
        *("unshare", "--mount", "sh", "-c", ENTER, "sh", str(group)),
        *("env", "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1", nspawn, "--quiet", "--directory", str(root)),
        *(
            "--register=no",
            "--keep-unit",
            "--private-network",
            "--console=pipe",
            "--bind-ro=/usr",
            f"--bind={out}:/out",
        ),
        *(f"--bind-ro={source}:{target}" for target, source in binds.items()),
        *("--boot", "systemd.unit=driver.service", "systemd.log_target=null"),
    ]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=RUN_S, check=False)
    finally:
        for emptied in sorted(group.glob("**/"), reverse=True):
            emptied.rmdir()
    said = (out / "said").read_text(errors="replace") if (out / "said").exists() else ""
    if not (out / "result.json").exists():
        pytest.fail(
            f"the container gave nothing: {done.stderr.decode(errors='replace')[-2000:]}\n{said[-4000:]}", False
        )
    print(said)
    found: dict[str, Any] = json.loads((out / "result.json").read_text())
    return found


def _cgroup2() -> Path:
    for line in Path("/proc/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(where)
    pytest.fail("no control groups of version 2 are mounted here", False)
