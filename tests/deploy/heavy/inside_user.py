"""What is done in the container as a developer would: hivesub is installed as a unit of the user's own systemd, used,
upgraded, stopped and removed. Gives facts; whether they are right is the test's to say.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.deploy.heavy.inside import group_of, until

USER = 1000
HOME = Path("/home/dev")
RUNTIME = Path(f"/run/user/{USER}")
BOUND_S = 60
STATE = HOME / ".local/state/hivesub"

SCRIPT = """\
#!{venv}/bin/python3
from {module} import {function}
raise SystemExit({function}())
"""


def environ() -> dict[str, str]:
    return {
        "HOME": str(HOME),
        "PATH": f"{HOME}/.local/bin:/usr/bin:/bin",
        "XDG_RUNTIME_DIR": str(RUNTIME),
        "LD_LIBRARY_PATH": os.environ["LD_LIBRARY_PATH"],
        "COLUMNS": "200",
    }


def as_user(*argv: str | Path, cwd: Path = HOME) -> dict[str, Any]:
    done = subprocess.run(
        [str(word) for word in argv],
        cwd=cwd,
        env=environ(),
        user=USER,
        group=USER,
        extra_groups=[],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    return {"code": done.returncode, "out": done.stdout, "err": done.stderr}


def systemctl(*argv: str) -> str:
    done = as_user("systemctl", "--user", *argv)
    return str(done["out"] + done["err"]).strip()


def show(unit: str = "hivesub.service") -> dict[str, str]:
    names = "ActiveState,SubState,Result,StatusText,MainPID,ExecMainStatus,UnitFileState,NRestarts"
    return dict(line.split("=", 1) for line in systemctl("show", unit, f"--property={names}").splitlines())


def make_venv(path: Path) -> Path:
    """A virtual environment such as pipx makes, of the container's Python and packages; gives its programs."""
    programs = path / "bin"
    site = path / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    for directory in (programs, site):
        directory.mkdir(parents=True)
    (path / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).parent}\n")
    (programs / "python3").symlink_to(sys.executable)
    (site / "packages.pth").write_text("/opt/src\n/opt/site\n")
    for name, module, function in (
        ("hivesub", "hivesub.cli.main", "main"),
        ("twistd", "twisted.scripts.twistd", "run"),
    ):
        (programs / name).write_text(SCRIPT.format(venv=path, module=module, function=function))
        (programs / name).chmod(0o755)
    return programs


def prepare() -> None:
    (HOME / "app").mkdir(parents=True)
    claude = HOME / ".local/bin/claude"
    claude.parent.mkdir(parents=True)
    shutil.copy("/opt/hivesub/bin/claude", claude)
    RUNTIME.mkdir(parents=True, mode=0o700)
    for path in (RUNTIME, HOME, *HOME.rglob("*")):
        os.chown(path, USER, USER, follow_symlinks=False)
    subprocess.run(["systemctl", "start", f"user@{USER}.service"], check=True, timeout=BOUND_S)


def one_daemon(found: dict[str, Any]) -> None:
    hivesub = make_venv(HOME / "venvs/first") / "hivesub"
    found["manager"] = systemctl("is-system-running")
    found["token"] = as_user(hivesub, "token", "--save")
    found["install"] = as_user(hivesub, "service", "install")
    found["installed"] = show()
    app = HOME / "app"
    prompt = "!standin bash touch ok; id -un; grep ^NoNewPrivs /proc/self/status > said\n!standin goal_reached done"
    found["alpha"] = as_user(
        hivesub, "start", "alpha", prompt, "--goal", "g", "--report-file", "report.md", "--watch", "--json", cwd=app
    )
    found["written"] = {path.name: [path.stat().st_uid, path.read_text()] for path in app.iterdir() if path.is_file()}
    # As the kernel's OOM killer does.
    started = json.loads(as_user(hivesub, "start", "beta", "!standin hang", "--json")["out"])
    pid = started["subagent"]["pid"]
    found["group"] = group_of(pid)
    found["busy"] = until(lambda: "1 of" in show()["StatusText"] and show())
    subprocess.run(["kill", "-KILL", str(pid)], check=True)
    found["beta"] = as_user(hivesub, "wait", "beta")
    found["after the kill"] = show()
    # The daemon itself is killed: its unit brings it back.
    subprocess.run(["kill", "-KILL", found["after the kill"]["MainPID"]], check=True)
    found["after a crash"] = until(lambda: show()["NRestarts"] == "1" and show()["ActiveState"] == "active" and show())
    found["doctor"] = as_user(hivesub, "doctor")


def upgrade(found: dict[str, Any]) -> None:
    hivesub = make_venv(HOME / "venvs/second") / "hivesub"
    before = show()["MainPID"]
    found["again"] = as_user(hivesub, "service", "install")
    found["upgraded"] = {**show(), "before": before}
    found["runs"] = Path(f"/proc/{show()['MainPID']}/cmdline").read_text().replace("\0", " ")
    found["continued"] = as_user(
        hivesub, "continue", "alpha", "!standin text on", "--dir", str(HOME / "app"), "--result"
    )


def second(found: dict[str, Any]) -> None:
    hivesub = HOME / "venvs/second/bin/hivesub"
    found["named"] = as_user(hivesub, "service", "install", "two", "--port", "8790", "--dir", "app")
    found["two"] = show("hivesub@two.service")
    url = ("--url", "http://127.0.0.1:8790")
    found["start of two"] = as_user(hivesub, "start", "alpha", "!standin text hi", "--dir", "", "--json", *url)
    found["two uninstalled"] = as_user(hivesub, "service", "uninstall", "two")
    found["two after"] = show("hivesub@two.service")
    found["one beside"] = show()


def end(found: dict[str, Any]) -> None:
    hivesub = HOME / "venvs/second/bin/hivesub"
    as_user(hivesub, "start", "gamma", "!standin spawn own-session env -i tail -f /dev/null\n!standin hang")
    found["uninstall"] = as_user(hivesub, "service", "uninstall")
    found["uninstalled"] = show()
    found["left"] = subprocess.run(["pgrep", "-a", "tail"], capture_output=True, text=True).stdout
    found["files"] = sorted(str(path.relative_to(HOME)) for path in (HOME / ".config").rglob("*") if not path.is_dir())
    found["todos"] = (STATE / "todos.jsonl").read_text()


def main(result: str) -> None:
    found: dict[str, Any] = {"trouble": []}
    for part in (lambda found: prepare(), one_daemon, upgrade, second, end):
        try:
            part(found)
        except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError) as error:
            found["trouble"].append(f"{getattr(part, '__name__', part)}: {error!r}")
    journal = ["journalctl", "--no-pager", "--output=cat", "--lines=60"]
    print(subprocess.run(journal, capture_output=True, text=True, check=False).stdout)
    Path(result).write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
