"""What the whole daemon gives a claude: arguments, environment, config file, launcher; and nothing else."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import psutil
import pytest

from hivesub.standin import write_wrapper
from tests.support.agent import ToolError
from tests.support.world import World, prompt, until, world

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
FORBIDDEN = {
    "CLAUDECODE": "1",
    "CLAUDE_CODE_ENTRYPOINT": "cli",
    "CLAUDE_CODE_SESSION_ID": "123e4567-e89b-12d3-a456-426614174000",
    "CLAUDE_CODE_SSE_PORT": "9",
    "NOTIFY_SOCKET": "/nowhere",
    "CREDENTIALS_DIRECTORY": "/nowhere",
    "HIVESUB_MAX_RUNNING": "3",
    "HIVESUB_TURN": "somebody-elses",
}
KEPT = {"ANTHROPIC_API_KEY": "key-of-the-model", "CLAUDE_CODE_MAX_RETRIES": "1", "EDITOR": "ed"}
SERVERS = {
    "mcpServers": {
        "shared": {
            "type": "http",
            "url": "http://127.0.0.1:9/mcp",
            "headers": {"Authorization": "Bearer s3cret-of-shared"},
            "availableToSubagents": True,
        },
        "kept": {"command": "/bin/true", "availableToSubagents": False},
        "silent": {"command": "/bin/true"},
    }
}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A daemon below a claude's environment, with servers of the operator's."""
    root = tmp_path_factory.mktemp("given")
    (root / "servers.json").write_text(json.dumps(SERVERS))
    environ = {**FORBIDDEN, **KEPT, "HIVE_TOOL_GROUPS": "files web_tools"}
    with world(root, environ=environ, options=["--mcp-servers", str(root / "servers.json")]) as given:
        yield given


async def dumped(world: World, name: str, **arguments: Any) -> Any:
    path = world.dir / f"{name}.json"
    await world.run(name, f"dump {path}", **arguments)
    return json.loads(path.read_text())


async def test_the_arguments_are_exactly_those_and_the_prompt_is_none_of_them(given: World) -> None:
    hidden = prompt(f"dump {given.dir}/argv.json", "hang")
    record = (await given.agent.call("start", name="argv", prompt=hidden))["subagent"]
    path = given.dir / "argv.json"
    await until(path.exists)
    dump = json.loads(path.read_text())
    argv = dump["argv"]
    fixed = [
        "-p",
        "--verbose",
        "--output-format",
        "stream-json",
        "--dangerously-skip-permissions",
        "--strict-mcp-config",
    ]
    assert argv[: len(fixed)] == fixed
    config, tools, flag, settings, title, session = argv[len(fixed) :]
    assert re.fullmatch(rf"--mcp-config={re.escape(str(given.daemon.runtime))}/\S+/argv\.mcp\.json", config)
    assert tools == "--tools=Edit,Glob,Grep,Read,Skill,Write,WebFetch,WebSearch"
    confined = json.loads(settings)
    assert flag == "--settings"
    assert (confined["disableAllHooks"], confined["crossSessionInbound"]) == (True, "refuse")
    assert title == "--name=argv"
    assert session == f"--session-id={record['session_id']}" and UUID.fullmatch(record["session_id"])
    assert dump["prompt"] == hidden
    # A group and a session of its own, and the process id of the answer is claude's own.
    assert dump["pid"] == record["pid"] == dump["pgid"] == dump["sid"]
    assert dump["cwd"] == os.path.realpath(given.dir)
    token = dump["servers"]["subagent_control"]["url"].rpartition("/")[2]
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        assert token not in line and "s3cret-of-shared" not in line
    environ = psutil.Process(record["pid"]).environ()
    assert token not in str(environ)
    await given.agent.call("interrupt", name="argv")


async def test_a_continue_resumes_by_id_and_hands_on_model_effort_and_what_is_left_of_the_budget(given: World) -> None:
    options = {"model": "opus", "effort": "high", "max_budget_usd": 0.5}
    steps = ("cost 0.2", f"turn 2: dump {given.dir}/resumed.json")
    record = await given.run("resumed", *steps, goal="g", max_turns=2, **options)
    dump = json.loads((given.dir / "resumed.json").read_text())
    *_, session, model, effort, budget = dump["argv"]
    assert session == f"--resume={record['session_id']}"
    assert (model, effort, budget) == ("--model=opus", "--effort=high", "--max-budget-usd=0.300000")
    assert dump["argv"].count("--name=resumed") == 1


async def test_what_makes_a_claude_nested_or_is_the_daemons_own_is_not_passed_on(given: World) -> None:
    first = (await dumped(given, "environ"))["env"]
    second = (await dumped(given, "environ"))["env"]
    mark = first.pop("HIVESUB_TURN")
    assert re.fullmatch(rf"{given.marks()[-1]}-[0-9a-f]{{16}}", mark)
    assert second.pop("HIVESUB_TURN") != mark
    assert first == second
    assert not FORBIDDEN.keys() & first.keys()
    assert {key: first[key] for key in KEPT} == KEPT
    expected = {key: value for key, value in given.daemon.environ.items() if key not in FORBIDDEN}
    expected |= {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    # A shell on the way sets these itself.
    assert {key: value for key, value in first.items() if key not in {"PWD", "SHLVL", "_", "OLDPWD"}} == expected


async def test_the_config_file_is_private_holds_what_is_shared_and_goes_at_its_first_use(given: World) -> None:
    looked = given.dir / "looked"
    record = await given.start("config", f"write {looked} x", "hang")
    seen: list[tuple[int, int, Any]] = []
    # It may be gone before anybody looks: then that its content was right is told by what claude read of it.
    await until(lambda: looked.exists() or _look(given, seen))
    await until(looked.exists)
    assert [path.name for path in given.configs()] == []
    for mode, folder_mode, content in seen:
        assert (mode, folder_mode) == (0o600, 0o700)
        assert sorted(content["mcpServers"]) == ["shared", "subagent_control"]
    assert stat.S_IMODE(given.daemon.runtime.stat().st_mode) == 0o700
    await given.agent.call("interrupt", name="config")
    assert record["pid"] not in [child.pid for child in given.children()]
    servers = (await dumped(given, "servers"))["servers"]
    assert sorted(servers) == ["shared", "subagent_control"]
    assert servers["shared"]["headers"] == {"Authorization": "Bearer s3cret-of-shared"}
    control = servers["subagent_control"]["url"]
    assert re.fullmatch(rf"{re.escape(given.daemon.url)}/signal/mcp/[A-Za-z0-9_-]{{43,}}", control)
    assert "s3cret-of-shared" not in given.daemon.log_text()


def _look(world: World, seen: list[tuple[int, int, Any]]) -> bool:
    for path in world.configs():
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
            seen.append((mode, stat.S_IMODE(path.parent.stat().st_mode), json.loads(path.read_text())))
        except OSError:
            continue
    return False


async def test_a_session_that_lacks_tools_says_which_and_one_that_has_none_fails(given: World) -> None:
    record = await given.run("lacks", "init tools=Read,Write", "text done")
    assert record["last_turn"]["outcome"] == "finished"
    assert record["missing_tools"] == ["Edit", "Glob", "Grep", "Skill", "WebFetch", "WebSearch"]
    record = await given.run("none", "init tools=mcp__subagent_control__need_help", "hang", goal="g", max_turns=3)
    assert (record["state"], record["turn"]) == ("failed", 1)
    assert "claude offers none of the tools asked for" in record["last_turn"]["detail"]


async def test_a_session_that_has_more_tools_than_were_granted_fails_and_names_them(given: World) -> None:
    record = await given.run("more", "init tools=Read,Bash", "hang", goal="g", max_turns=3)
    assert (record["state"], record["turn"]) == ("failed", 1)
    assert "claude offers tools that were not granted: Bash" in record["last_turn"]["detail"]


async def test_a_session_without_its_signal_route_ends_a_goal_run_after_its_first_turn(given: World) -> None:
    record = await given.run("routeless", "init mcp=none", "text working", goal="g", max_turns=3)
    assert (record["stop_reason"]["kind"], record["turn"], record["control"]) == ("no_control", 1, "failed")


async def test_settings_that_changed_during_a_turn_stop_the_run_and_its_continue(given: World) -> None:
    work = given.dir / "changing"
    settings = work / ".claude" / "settings.local.json"
    settings.parent.mkdir(parents=True)
    record = await given.run("changing", f"write {settings} {{}}", "text one", goal="g", max_turns=2, dir=str(work))
    assert record["stop_reason"]["kind"] == "turn_cap"
    record = await given.run(
        "changing", f'write {settings} {{"hooks":{{}}}}', "text", goal="g", max_turns=3, dir=str(work)
    )
    assert (record["state"], record["turn"], record["last_turn"]["outcome"]) == ("failed", 1, "finished")
    assert f"{settings} (hooks)" in record["stop_reason"]["message"]
    with pytest.raises(ToolError, match=r"settings.local.json \(hooks\)"):
        await given.agent.call("continue", name="changing", prompt="go on")
    accepted = await given.agent.call(
        "continue", name="changing", prompt=prompt("text on"), session_id=record["session_id"], goal=""
    )
    assert accepted["subagent"]["session_id"] == record["session_id"]
    assert (await given.agent.ended("changing"))["last_turn"]["outcome"] == "finished"


async def test_a_launcher_stands_before_claude_and_everything_else_stays(tmp_path: Path) -> None:
    launcher = "env LAUNCHED='by me' prlimit --nofile=512:512"
    with world(tmp_path / "own", options=["--launcher", launcher]) as own:
        dump, limit = own.dir / "dump.json", own.dir / "limit"
        record = await own.start("alpha", f"spawn ulimit -n > {limit}", f"dump {dump}", "bash tail -f /dev/null")
        await until(dump.exists)
        given = json.loads(dump.read_text())
        assert given["env"]["LAUNCHED"] == "by me"
        assert given["pid"] == record["pid"]
        assert await until(lambda: limit.exists() and limit.read_text().strip()) == "512"
        answer = await own.agent.call("interrupt", name="alpha")
        assert (answer["subagent"]["state"], answer["escalated"]) == ("killed", False)
        await own.nothing_left()


async def test_an_older_claude_is_refused_by_name_and_version_and_one_without_titles_runs_without(
    tmp_path: Path,
) -> None:
    claude = tmp_path / "claude"
    with world(tmp_path / "own", claude=str(claude)) as own:
        await until(lambda: "no run can start yet" in own.daemon.log_text())
        with pytest.raises(ToolError, match=f"start error: no program '{claude}'.*--claude"):
            await own.agent.call("start", name="alpha", prompt="x")
        assert (await own.agent.call("status"))["subagents"] == []
        real = write_wrapper(tmp_path / "real")
        older(claude, real, "--strict-mcp-config")
        with pytest.raises(ToolError, match=r"is 2\.1\.332 .*which lacks --strict-mcp-config"):
            await own.agent.call("start", name="alpha", prompt="x")
        older(claude, real, "--name")
        given = await dumped(own, "alpha")
        assert not [argument for argument in given["argv"] if argument.startswith("--name")]
        assert own.tracebacks() == ""


def older(path: Path, real: str, lacks: str) -> None:
    """Put a claude that lacks a flag at the path, in place of what was there."""
    fresh = path.with_name("fresh")
    fresh.write_text(f'#!/bin/sh\nSTANDIN_LACKS={lacks} exec {real} "$@"\n')
    fresh.chmod(0o755)
    fresh.replace(path)


async def test_what_was_not_read_of_a_prompt_holds_up_no_end(tmp_path: Path) -> None:
    """What a claude that is gone has started may hold its stdin and read none of it."""
    real = write_wrapper(tmp_path / "real", sandboxed=True)
    claude = tmp_path / "claude"
    dies = 'case " $* " in *" -p "*) exec 3<&0; sleep 600 & kill -9 $$ ;; esac'
    claude.write_text(f'#!/bin/sh\n{dies}\nexec {real} "$@"\n')
    claude.chmod(0o755)
    with world(tmp_path / "own", claude=str(claude)) as own:
        await own.agent.call("start", name="alpha", prompt="x" * 300_000)
        record = await own.agent.ended("alpha")
        assert (record["state"], record["last_turn"]["signal"]) == ("killed", "SIGKILL")
        await own.nothing_left()
