"""How a turn ended, seen through whatever stands between the daemon and claude."""

from __future__ import annotations

from tests.support.agent import Agent


async def expect_ends_as_they_are(agent: Agent) -> None:
    """An exit code and deaths by signal are seen as they are.

    :raises AssertionError: where one is not.
    """
    for name, step in (("code", "exit 7"), ("killed", "kill SIGKILL"), ("terminated", "kill SIGTERM")):
        await agent.call("start", name=name, prompt=f"!standin {step}")
    code, killed, terminated = [(await agent.ended(name))["last_turn"] for name in ("code", "killed", "terminated")]
    assert (code["outcome"], code["exit_code"]) == ("failed", 7)
    assert (killed["outcome"], killed["signal"]) == ("killed", "SIGKILL")
    assert (terminated["outcome"], terminated["signal"]) == ("killed", "SIGTERM")
