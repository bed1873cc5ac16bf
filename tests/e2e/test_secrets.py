"""Secrets with the real claude: it says all of them, and none is shown; without one the agent's route is shut."""

from __future__ import annotations

import json
from pathlib import Path

from twisted.internet import reactor

from tests.realclaude.model import ScriptedModel
from tests.realclaude.steps import hang, refuse, say, use
from tests.support.agent import Agent
from tests.support.daemon import Daemon
from tests.support.leaky import Hunt
from tests.support.scenes import posting, signal_url, spawned_by, todos_of, told, tool_results, wrapped

API_KEY = "sk-ant-MARKe2ekey-0123"
BEARER = "MARKe2ebearer-0123456789"
HEADER = "Bearer MARKe2eheader/0123456789=="
NAMES = ("good", "bad", "busy")


def token_file(directory: Path) -> list[str]:
    """The options that have the daemon ask for the token."""
    path = directory / "token"
    path.write_text(BEARER)
    path.chmod(0o600)
    return ["--auth-token-file", str(path)]


async def test_no_secret_that_claude_was_given_and_says_is_shown(
    tmp_path: Path, claude: Path, sandbox: dict[str, str], model: ScriptedModel
) -> None:
    servers = tmp_path / "servers.json"
    entry = {"type": "http", "url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": HEADER}}
    servers.write_text(json.dumps({"mcpServers": {"docs": {**entry, "availableToSubagents": True}}}))
    gate = tmp_path / "gate"
    # Until then the config files are there, and the tokens in them can be scripted.
    program = wrapped(claude, tmp_path, f'while [ "$1" = -p ] && ! [ -e {gate} ]; do sleep 0.1; done')
    options = [*token_file(tmp_path), "--mcp-servers", str(servers)]
    environ = {**sandbox, "ANTHROPIC_API_KEY": API_KEY}
    with Daemon(tmp_path, claude=program, environ=environ, options=options) as daemon:
        agent = Agent(f"{daemon.url}/mcp", reactor, token=BEARER)
        for name in NAMES:
            await agent.call("start", name=name, prompt=f"marker-{name}", goal="tell", report_file="report.md")
        urls = [signal_url(daemon, name) for name in NAMES]
        assert all(urls)
        tokens = [url.rpartition("/")[2] for url in urls]
        said = " ".join([API_KEY, BEARER, HEADER, HEADER.removeprefix("Bearer "), *urls, *tokens])
        hunt = Hunt({"MARKe2e": "a secret of the daemon's", **dict.fromkeys(tokens, "a signal token")})
        model.script("marker-good", use("mcp__subagent_control__need_help", reason=said), say(said))
        model.script("marker-bad", *[refuse(500, said)] * 5)
        model.script("marker-busy", hang(said))
        gate.touch()
        await spawned_by(model, "marker-busy")
        hunt.look_at_arguments()
        await agent.call("interrupt", name="busy")
        good, bad = await agent.ended("good"), await agent.ended("bad")
        assert (good["state"], bad["state"]) == ("blocked", "failed")
        good = await agent.record("good", result=True)
        for shown in (good["result"], good["signals"][0]["message"], bad["last_turn"]["detail"]):
            assert "[redacted]" in shown
        hunt.look("the records", told([good, await agent.call("status")]))
        assert len(await todos_of(daemon, len(NAMES))) == len(NAMES)
        for text in agent.texts:
            hunt.look("an answer", text)
        hunt.look("the log", daemon.log_text())
        assert (daemon.work / "report.md").read_text().count("[redacted]") >= 2
        for directory in (daemon.state, daemon.runtime, daemon.work):
            hunt.look_at_files(directory)
        assert hunt.found == [], "\n".join(hunt.found)


async def test_a_subagent_that_knows_the_address_but_no_token_starts_nobody(
    tmp_path: Path, claude: Path, sandbox: dict[str, str], model: ScriptedModel
) -> None:
    options = ["--tools=Bash", *token_file(tmp_path)]
    with Daemon(tmp_path, claude=claude, environ=sandbox, options=options) as daemon:
        start = {"name": "start", "arguments": {"name": "nested", "prompt": "go"}}
        call = posting(f"{daemon.url}/mcp", "tools/call", start)
        model.script("marker-outer", use("Bash", command=call, description="x"), say("tried"))
        agent = Agent(f"{daemon.url}/mcp", reactor, token=BEARER)
        await agent.call("start", name="outer", prompt="marker-outer")
        await agent.ended("outer")
        assert "401" in tool_results(model, "marker-outer")
        assert [each["name"] for each in (await agent.call("status"))["subagents"]] == ["outer"]
