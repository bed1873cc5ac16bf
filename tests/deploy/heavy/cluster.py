"""A Slurm cluster of one node on loopback: munged, slurmctld and slurmd from Debian's packages, in a directory of its
own.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.debian import need

UP_S = 30.0
DOWN_S = 20.0

CONFIG = """\
ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket
CredType=cred/munge
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd.log
ProctrackType={proctrack}
TaskPlugin=task/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 Port={node_port} CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 \
ThreadsPerCore=1 RealMemory=1000
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Cluster:
    """`environ` leads a client to it, and is the environment of the node's own daemon: PATH and no more."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._running: list[subprocess.Popen[bytes]] = []
        self._programs = {
            name: need(name, package)
            for name, package in (
                ("munged", "munge"),
                ("slurmctld", "slurmctld"),
                ("slurmd", "slurmd"),
                ("srun", "slurm-client"),
            )
        }
        self.environ = {"PATH": os.environ["PATH"], "SLURM_CONF": str(root / "slurm.conf")}

    def start(self) -> None:
        root = self._root
        for directory in ("state", "spool"):
            (root / directory).mkdir(parents=True)
        (root / "munge.key").write_bytes(secrets.token_bytes(1024))
        (root / "munge.key").chmod(0o600)
        cgroups = Path("/sys/fs/cgroup/freezer").is_dir()
        (root / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n" if cgroups else "")
        (root / "slurm.conf").write_text(
            CONFIG.format(
                root=root,
                host=socket.gethostname().partition(".")[0],
                user=subprocess.check_output(["id", "-un"], text=True).strip(),
                controller_port=_free_port(),
                node_port=_free_port(),
                # Only by its cgroup does a node find what has begun a session of its own.
                proctrack="proctrack/cgroup" if cgroups else "proctrack/linuxproc",
            )
        )
        munge = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munged.pid", "seed-file": "munge.seed"}
        paths = [f"--{option}={root / name}" for option, name in munge.items()]
        self._run("munged", "--foreground", "--force", *paths)
        self._until(lambda: (root / "munge.socket").exists(), "munged")
        self._run("slurmctld", "-D", "-f", str(root / "slurm.conf"))
        self._run("slurmd", "-D", "-f", str(root / "slurm.conf"))
        self._until(lambda: "idle" in self.client("sinfo", "--noheader", "--format=%t"), "the node")

    def client(self, *argv: str) -> str:
        """What one of Slurm's commands wrote on stdout."""
        done = subprocess.run(argv, env=self.environ, capture_output=True, text=True, timeout=UP_S, check=False)
        return done.stdout

    def jobs(self) -> list[str]:
        """The names of the jobs that wait, run or are being ended."""
        return self.client("squeue", "--noheader", "--format=%j").split()

    def stop(self) -> None:
        for process in reversed(self._running):
            process.terminate()
        for process in reversed(self._running):
            try:
                process.wait(DOWN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _run(self, program: str, *argv: str) -> None:
        with (self._root / f"{program}.out").open("wb") as out:
            self._running.append(
                subprocess.Popen([self._programs[program], *argv], env=self.environ, stdout=out, stderr=out)
            )

    def _until(self, look: object, what: str) -> None:
        assert callable(look)
        deadline = time.monotonic() + UP_S
        while not look():
            said = {path.name: path.read_text()[-500:] for path in self._root.glob("*.out")}
            assert time.monotonic() < deadline, f"{what} did not come up: {said}"
            time.sleep(0.1)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def running_cluster(root: Path) -> Iterator[Cluster]:
    cluster = Cluster(root)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
