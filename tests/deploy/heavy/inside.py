"""What is done in the container: the shipped units are started, used and stopped under systemd. Gives facts; whether
they are right is the test's to say.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

TOKEN = "the-agents-own-token"
PROTOCOL = "2026-07-28"
LOOKS = 100


def call(port: int, tool: str, **arguments: Any) -> Any:
    """A tool's `structuredContent`, or its text where it is an error."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": PROTOCOL,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {},
        "hivesub/record": True,
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/mcp",
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode(),
        {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": PROTOCOL,
            "Mcp-Method": "tools/call",
            "Mcp-Name": tool,
            "Authorization": f"Bearer {TOKEN}",
        },
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        result = json.loads(answer.read())["result"]
    return result["content"][0]["text"] if result.get("isError") else result["structuredContent"]


def ended(port: int, name: str) -> Any:
    return call(port, "status", name=name, wait_s=30)["subagents"][0]


def systemctl(*argv: str) -> str:
    done = subprocess.run(["systemctl", *argv], capture_output=True, text=True, timeout=60, check=False)
    return (done.stdout + done.stderr).strip()


def show(unit: str) -> dict[str, str]:
    names = "ActiveState,SubState,Result,StatusText,MainPID,ExecMainStatus"
    return dict(line.split("=", 1) for line in systemctl("show", unit, f"--property={names}").splitlines())


def until(look: Any) -> Any:
    for _ in range(LOOKS):
        seen = look()
        if seen:
            return seen
        time.sleep(0.1)
    return look()


def group_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text().strip().rpartition(":")[2]


def one_service(found: dict[str, Any]) -> None:
    systemctl("start", "hivesub.service")
    found["started"] = show("hivesub.service")
    said = Path("/srv/work/said")
    command = f"(id -un; touch /etc/x /home/x /srv/work/ok; ls /root; grep ^Seccomp: /proc/self/status) > {said} 2>&1"
    prompt = f"!standin bash {command}\n!standin goal_reached done"
    call(8787, "start", name="alpha", prompt=prompt, goal="g", report_file="report.md")
    found["alpha"] = ended(8787, "alpha")
    found["said"] = said.read_text() if said.exists() else ""
    found["ok"] = Path("/srv/work/ok").exists()
    # As the kernel's OOM killer does.
    pid = call(8787, "start", name="beta", prompt="!standin hang")["subagent"]["pid"]
    found["busy"] = until(lambda: "1 of" in show("hivesub.service")["StatusText"] and show("hivesub.service"))
    subprocess.run(["kill", "-KILL", str(pid)], check=True)
    found["beta"] = ended(8787, "beta")
    found["after the kill"] = show("hivesub.service")
    call(8787, "start", name="gamma", prompt="!standin spawn own-session env -i tail -f /dev/null\n!standin hang")
    before = time.monotonic()
    systemctl("stop", "hivesub.service")
    found["stop_s"] = time.monotonic() - before
    found["stopped"] = show("hivesub.service")
    found["left"] = subprocess.run(["pgrep", "-u", "hivesub", "-a"], capture_output=True, text=True).stdout
    found["todos"] = Path("/var/lib/hivesub/todos.jsonl").read_text()


def shared(found: dict[str, Any]) -> None:
    """A group shares the working directory: what its members can read there, and others cannot."""
    work, group = Path("/srv/work"), 2000
    os.chown(work, -1, group)
    work.chmod(0o2770)
    drop_in = Path("/etc/systemd/system/hivesub.service.d/shared.conf")
    drop_in.parent.mkdir()
    drop_in.write_text("[Service]\nUMask=0027\nEnvironment=HIVESUB_TODO=/srv/work/todos.jsonl\n")
    systemctl("daemon-reload")
    systemctl("start", "hivesub.service")
    call(8787, "start", name="sharing", prompt="!standin bash mkdir sub; echo x > sub/file", report_file="r.md")
    found["sharing"] = ended(8787, "sharing")
    systemctl("stop", "hivesub.service")
    found["shared"] = {
        who: [
            subprocess.run(["cat", work / name], user=user, group=user, extra_groups=groups, capture_output=True)
            .stdout.decode()
            .strip()
            .partition("\n")[0]
            for name in ("r.md", "sub/file", "todos.jsonl")
        ]
        for who, user, groups in (("member", 1001, [group]), ("stranger", 1002, []))
    }
    drop_in.unlink()
    systemctl("daemon-reload")


def instances(found: dict[str, Any]) -> None:
    for name in ("one", "two"):
        systemctl("start", f"hivesub@{name}.service")
    found["one"], found["two"] = show("hivesub@one.service"), show("hivesub@two.service")
    call(8791, "start", name="alpha", prompt="!standin text hi")
    found["alpha of one"] = ended(8791, "alpha")
    found["alpha of two"] = call(8792, "status", name="alpha")
    systemctl("stop", "hivesub@one.service")
    found["two, without one"] = show("hivesub@two.service")
    systemctl("stop", "hivesub@two.service")


def by_socket(found: dict[str, Any]) -> None:
    env = Path("/etc/hivesub/hivesub.env")
    env.write_text(env.read_text().replace("HIVESUB_PORT=8787", "HIVESUB_LISTEN=systemd:domain=INET:name=mcp"))
    systemctl("start", "hivesub.socket")
    found["before the call"] = show("hivesub.service")["ActiveState"]
    found["the call"] = call(8787, "status")
    found["after the call"] = show("hivesub.service")["ActiveState"]
    systemctl("stop", "hivesub.socket", "hivesub.service")


def by_scope(found: dict[str, Any]) -> None:
    """A daemon of root's, since without the user's manager only root may make scopes."""
    launcher = "systemd-run --scope --quiet --collect -p TasksMax=77"
    run = ["systemd-run", "--unit=rooted", "--property=Type=notify", "--property=KillMode=mixed"]
    run += ["--property=StateDirectory=rooted", "--property=StateDirectoryMode=0700"]
    run += ["--property=RuntimeDirectory=rooted", "--property=RuntimeDirectoryMode=0700", "--setenv=IS_SANDBOX=1"]
    run += ["--setenv=HOME=/root", "/opt/hivesub/bin/twistd", "-n", "--pidfile=", "hivesub", "--port=8799"]
    subprocess.run([*run, "--claude=/opt/hivesub/bin/claude", "--dir=/srv", "--launcher", launcher], check=True)
    prompt = "!standin dump /srv/seen\n!standin bash tail -f /dev/null"
    pid = call(8799, "start", name="alpha", prompt=prompt)["subagent"]["pid"]
    until(Path("/srv/seen").exists)
    found["scope"] = {
        "pid": pid,
        "pid seen": json.loads(Path("/srv/seen").read_text())["pid"],
        "group": group_of(pid),
        "tasks max": systemctl("show", Path(group_of(pid)).name, "--property=TasksMax"),
        "interrupted": call(8799, "interrupt", name="alpha")["subagent"],
        "left": subprocess.run(["pgrep", "-a", "tail"], capture_output=True, text=True).stdout,
    }
    systemctl("stop", "rooted")


def main(result: str) -> None:
    found: dict[str, Any] = {"trouble": []}
    for part in (one_service, shared, instances, by_socket, by_scope):
        try:
            part(found)
        except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError) as error:
            found["trouble"].append(f"{part.__name__}: {error!r}")
    journal = ["journalctl", "--no-pager", "--output=cat", "--lines=60", "_COMM=python3"]
    print(subprocess.run(journal, capture_output=True, text=True, check=False).stdout)
    Path(result).write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
