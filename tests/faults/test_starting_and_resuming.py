"""Starting and resuming: what reaches claude, what is refused before it, and what is said when it does not start."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hivesub.standin import write_wrapper
from tests.support.agent import ToolError
from tests.support.world import World, quoted, until, world

NESTED = {
    "CLAUDECODE": "1",
    "CLAUDE_CODE_ENTRYPOINT": "cli",
    "CLAUDE_CODE_SESSION_ID": "4f7b5c56-0f2a-4a0e-9f0e-0f9f5c1d2e3f",
    "NOTIFY_SOCKET": "/run/nowhere",
    "HIVESUB_MAX_RUNNING": "3",
}


class Scribe:
    """A daemon whose stand-in writes down what each of its processes was given, whatever it is prompted."""

    def __init__(self, world: World, given: Path) -> None:
        self.world = world
        self._given = given

    async def given(self, name: str, prompt: str, **arguments: Any) -> Any:
        """What claude was given for a start with this prompt, as the stand-in's step `dump` tells."""
        self._given.unlink(missing_ok=True)
        await self.world.agent.call("start", name=name, prompt=prompt, **arguments)
        record = await self.world.agent.ended(name)
        assert record["last_turn"]["outcome"] == "finished", record
        return json.loads(self._given.read_text())


@pytest.fixture(scope="module")
def scribe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scribe]:
    root = tmp_path_factory.mktemp("scribe")
    script = root / "script.json"
    script.write_text(json.dumps({"each": [f"dump {root}/given", "text noted"]}))
    with world(root, claude=write_wrapper(root / "claude", script), environ=NESTED) as running:
        yield Scribe(running, root / "given")


class Switch:
    """A daemon whose claude is a file that the test replaces."""

    def __init__(self, world: World, path: Path) -> None:
        self.world = world
        self.path = path

    def put(self, body: str) -> None:
        """A claude that answers what it is asked at first, and then does this."""
        draft = self.path.with_suffix(".new")
        flags = "--tools --settings --strict-mcp-config --mcp-config --session-id --resume --name"
        draft.write_text(
            f'#!/bin/sh\ncase "$1" in\n--version) echo 9; exit 0;;\n--help) echo "{flags}"; exit 0;;\nesac\n{body}\n'
        )
        draft.chmod(0o755)
        draft.replace(self.path)

    def put_standin(self) -> None:
        write_wrapper(self.path.with_suffix(".new"))
        self.path.with_suffix(".new").replace(self.path)

    def put_standin_that_counts(self, resumed: Path) -> None:
        """The stand-in behind a shell that adds a line to this file for each process that is to resume a session."""
        standin = write_wrapper(self.path.with_name("standin"))
        self.put(f'case "$*" in\n*--resume*) echo "$*" >> {quoted(resumed)};;\nesac\nexec {standin} "$@"')


@pytest.fixture(scope="module")
def switch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Switch]:
    root = tmp_path_factory.mktemp("switch")
    path = root / "bin" / "claude"
    path.parent.mkdir()
    write_wrapper(path)
    with world(root, claude=str(path)) as running:
        yield Switch(running, path)


PROMPTS = {
    "a list item": "- [ ] x",
    "an option": "--help",
    "a slash command": "/clear",
    "a shell escape": "!ls",
    "a file mention": "@/etc/passwd",
    "a NUL": "a\0b",
    "10,000 newlines": "x" + "\n" * 10_000 + "y",
    "200 KB": "ä" * 100_000,
    "white space at both ends": "\n  x \t\r\n\n",
}


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
async def test_a_prompt_reaches_claude_byte_for_byte_and_on_no_argument_list(
    scribe: Scribe, name: str, prompt: str
) -> None:
    given = await scribe.given(name, prompt)
    assert given["prompt"] == prompt
    assert not any(prompt in argument for argument in given["argv"])


async def test_a_prompt_of_newlines_alone_is_refused_by_its_field(scribe: Scribe, name: str) -> None:
    with pytest.raises(ToolError, match="start error: prompt: must not be blank"):
        await scribe.world.agent.call("start", name=name, prompt="\n" * 10_000)


async def test_a_goal_of_200_kb_is_quoted_to_claude_whole(scribe: Scribe, name: str) -> None:
    goal = "reach it; " * 20_000
    given = await scribe.given(name, "go", goal=goal, max_turns=1)
    assert goal.strip() in given["prompt"]
    assert (await scribe.world.agent.record(name))["goal"] == goal


async def test_what_makes_a_claude_nested_reaches_no_child(scribe: Scribe, name: str) -> None:
    given = await scribe.given(name, "go")
    assert not set(NESTED) & set(given["env"])
    assert [key for key in given["env"] if key.startswith("HIVESUB_")] == ["HIVESUB_TURN"]


@pytest.mark.parametrize("bad", ["--dangerously-skip-permissions", "../x", "n" * 300, "", "a b", "a/b", "-x", "a\n"])
async def test_a_bad_name_is_refused_before_any_spawn(scribe: Scribe, bad: str) -> None:
    scribe._given.unlink(missing_ok=True)
    for tool in ("start", "continue"):
        with pytest.raises(ToolError, match=f"^{tool} error: name"):
            await scribe.world.agent.call(tool, name=bad, prompt="go")
    assert not scribe.world.children()
    assert not scribe._given.exists()


@pytest.mark.parametrize(
    "line",
    [
        "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons",
        "error: unknown option '--from-tomorrow'",
        "Invalid API key · Please run /login",
    ],
)
async def test_the_one_line_that_claude_exits_with_is_in_status_todo_and_the_error_of_continue(
    shared: World, name: str, line: str
) -> None:
    steps = (f"before-init stderr {line}", "before-init exit 1")
    record = await shared.run(name, *steps)
    assert (record["state"], record["last_turn"]["exit_code"]) == ("failed", 1)
    assert line in record["last_turn"]["detail"]
    assert line in (await shared.todo(name))["body"]
    prompt = "\n".join(f"!standin {step}" for step in steps)
    await shared.run(f"{name[:50]}-2", "text good")
    with pytest.raises(ToolError) as refused:
        await shared.agent.call("continue", name=f"{name[:50]}-2", prompt=prompt)
    assert str(refused.value).startswith("continue error: claude error: ")
    assert line in str(refused.value)
    second = await shared.agent.record(f"{name[:50]}-2")
    assert (second["state"], line in second["last_turn"]["detail"]) == ("failed", True)


async def test_a_claude_that_prints_nothing_and_exits_0_is_failed(switch: Switch, name: str) -> None:
    switch.put("cat > /dev/null; exit 0")
    record = await switch.world.run(name, "text of no use")
    assert (record["state"], record["last_turn"]["outcome"]) == ("failed", "failed")
    assert "exit 0 without a result" in record["last_turn"]["detail"]


async def test_a_claude_that_is_replaced_or_gone_is_named_and_the_next_good_start_works(
    switch: Switch, name: str
) -> None:
    switch.put_standin()
    await switch.world.run(name, "text good")
    switch.path.unlink()
    with pytest.raises(ToolError) as refused:
        await switch.world.start(name, "text good")
    assert str(switch.path) in str(refused.value)
    switch.path.write_text("no program")
    switch.path.chmod(0o755)
    with pytest.raises(ToolError) as refused:
        await switch.world.start(name, "text good")
    assert str(switch.path) in str(refused.value)
    assert (await switch.world.agent.record(name))["state"] == "idle"  # as it was
    switch.put_standin()
    assert (await switch.world.run(name, "text good"))["state"] == "idle"
    await switch.world.nothing_left()


async def test_a_claude_that_is_replaced_while_it_runs_changes_nothing_for_what_runs(switch: Switch, name: str) -> None:
    switch.put_standin()
    go, ready = switch.world.dir / f"{name}.go", switch.world.dir / f"{name}.ready"
    await switch.world.start(name, f"write {ready} it", f"wait-for {go}", "text as begun")
    await until(ready.exists)
    switch.put("echo of another kind >&2; exit 9")
    go.write_text("")
    assert (await switch.world.agent.ended(name))["last_turn"]["outcome"] == "finished"
    record = await switch.world.run(f"{name[:50]}-next", "text of no use")
    assert "of another kind" in record["last_turn"]["detail"]
    switch.put_standin()


async def test_a_session_whose_directory_is_gone_is_told_by_its_path_and_the_next_good_start_works(
    shared: World, name: str
) -> None:
    place = shared.daemon.root / name
    place.mkdir()
    await shared.run(name, "text good", dir=str(place))
    shutil.rmtree(place)
    with pytest.raises(ToolError) as refused:
        await shared.agent.call("continue", name=name, prompt="go on")
    assert str(place) in str(refused.value)
    with pytest.raises(ToolError) as refused:
        await shared.start(name, "text good", dir=str(place))
    assert str(place) in str(refused.value)
    await shared.all_goes_on(f"{name[:50]}-other")


async def test_a_daemon_whose_own_directory_is_gone_names_it_and_still_starts_elsewhere(own: World) -> None:
    work = own.daemon.work
    work.rename(own.dir / "moved")
    with pytest.raises(ToolError) as refused:
        await own.start("alpha", "text good")
    assert str(work) in str(refused.value)
    assert (await own.run("alpha", "text good", dir=str(own.dir)))["state"] == "idle"
    (own.dir / "moved").rename(work)
    await own.all_goes_on()


async def test_a_daemon_that_stands_in_a_directory_that_was_deleted_names_it_and_starts_elsewhere(
    tmp_path: Path,
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    prefix = ["sh", "-c", f'cd {quoted(gone)} && exec "$@"', "sh"]
    with world(tmp_path / "own", options=["--dir", str(gone)], prefix=prefix) as own:
        await own.all_goes_on("first")
        shutil.rmtree(gone)
        for tool, name in (("start", "alpha"), ("continue", "first")):
            with pytest.raises(ToolError) as refused:
                await own.agent.call(tool, name=name, prompt="go")
            assert str(refused.value).startswith(f"{tool} error: ")
            assert str(gone) in str(refused.value)
        record = await own.run("alpha", "text good", dir=str(own.dir), report_file="report.md")
        assert (record["state"], record["dir"]) == ("idle", str(own.dir))
        assert (await own.todo("alpha"))["subagent"]["report_error"] is None
        assert "Outcome:" in (own.dir / "report.md").read_text()
        await own.nothing_left()
        assert not own.tracebacks()


async def test_a_start_killed_during_init_gets_another_session_id_the_next_time(shared: World, name: str) -> None:
    killed = await shared.run(name, "before-init kill SIGKILL")
    assert (killed["state"], killed["last_turn"]["signal"]) == ("killed", "SIGKILL")
    ready = shared.dir / name
    interrupted = await shared.start(name, f"before-init write {ready} ready", "before-init hang")
    await until(ready.exists)
    await shared.agent.call("interrupt", name=name)
    good = await shared.run(name, "text good")
    assert good["state"] == "idle"
    assert len({killed["session_id"], interrupted["session_id"], good["session_id"]}) == 3


async def test_a_goal_run_whose_signal_route_failed_says_so_in_status_and_todo(shared: World, name: str) -> None:
    record = await shared.run(name, "init mcp=failed", "text on it", goal="all done", max_turns=3)
    assert (record["control"], record["stop_reason"]["kind"], record["turn"]) == ("failed", "no_control", 1)
    todo = await shared.todo(name)
    assert todo["subagent"]["control"] == "failed"
    assert "its signal route failed to connect" in todo["body"]


async def test_a_session_whose_transcript_is_gone_is_claudes_own_message_and_claude_is_asked_once(
    switch: Switch, name: str
) -> None:
    own = switch.world
    resumed = own.dir / f"{name}.resumed"
    switch.put_standin_that_counts(resumed)
    before = await own.run(name, "text good")
    assert await own.todo(name)
    for kept in (own.daemon.home / ".claude").rglob(f"{before['session_id']}*"):
        kept.unlink()
    with pytest.raises(ToolError) as refused:
        await own.agent.call("continue", name=name, prompt="go on")
    assert f"claude error: No conversation found with session ID: {before['session_id']}" in str(refused.value)
    assert "(searched " in str(refused.value)
    assert len(resumed.read_text().splitlines()) == 1
    await own.all_goes_on(f"{name[:50]}-next")
    assert len(resumed.read_text().splitlines()) == 1
    assert len(own.todos(name)) == 1
    assert (await own.agent.record(name))["session_id"] == before["session_id"]
    switch.put_standin()


async def test_a_bearer_token_of_the_operators_server_file_is_told_to_claude_alone(tmp_path: Path) -> None:
    secret = "tok-5f0e1c6b9a7d4e83"
    servers = tmp_path / "servers.json"
    entry = {"type": "http", "url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": f"Bearer {secret}"}}
    servers.write_text(json.dumps({"mcpServers": {"docs": {**entry, "availableToSubagents": True}}}))
    with world(tmp_path / "own", options=["--mcp-servers", str(servers)]) as own:
        given, report = own.dir / "given", own.dir / "report.md"
        steps = (f"dump {given}", f"need_help the header says {secret}", f"stderr refused: {secret}")
        record = await own.start("alpha", *steps, "hang", report_file=str(report))
        await until(given.exists)
        assert json.loads(given.read_text())["servers"]["docs"]["headers"] == {"Authorization": f"Bearer {secret}"}
        assert record["pid"] in own.turn_processes()
        seen = [os.fsencode(secret) in cmdline(pid) for pid in {*own.turn_processes(), own.daemon.pid}]
        assert seen and not any(seen)
        os.kill(record["pid"], 9)
        await own.agent.ended("alpha")
        await own.run("beta", f"before-init stderr bad {secret}", "before-init exit 1")
        assert await own.todo("beta")
        await own.agent.call("status", result=True)
        told = [*own.agent.texts, own.daemon.todos.read_text(), own.daemon.log_text(), report.read_text()]
        told.append(json.dumps(await own.agent.call("status", result=True)))
        assert "refused" not in own.daemon.log_text()
        assert [text for text in told if secret in text] == []


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return b""
