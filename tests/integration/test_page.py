"""The operator's page and `/metrics` of a whole daemon, on the stand-in, over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest
import treq
from prometheus_client.parser import text_string_to_metric_families
from treq.client import HTTPClient
from twisted.internet import reactor
from twisted.web.client import Agent as HTTPAgent
from twisted.web.client import HTTPConnectionPool

from tests.integration.conftest import TOKEN
from tests.support.agent import Agent
from tests.support.daemon import Daemon
from tests.support.http import headers_of

BOUND_S = 30


async def get(url: str, *, token: str | None = TOKEN, method: str = "GET") -> tuple[int, str]:
    client = HTTPClient(HTTPAgent(reactor, pool=HTTPConnectionPool(reactor, persistent=False)))
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    response = await client.request(method, url, headers=headers_of(headers)).addTimeout(BOUND_S, reactor)
    return response.code, await treq.text_content(response).addTimeout(BOUND_S, reactor)


async def samples(daemon: Daemon) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    status, text = await get(f"{daemon.url}/metrics")
    assert status == 200, text
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_a_run_is_seen_on_the_page_and_in_the_numbers(daemon: Daemon) -> None:
    agent = Agent(f"{daemon.url}/mcp", reactor, token=TOKEN)
    prompt = "!standin text one\n!standin turn 2: need_help May I & <b>you</b>?"
    await agent.call("start", name="seen", prompt=prompt, goal="be seen", max_turns=3)
    await agent.ended("seen")
    status, page = await get(f"{daemon.url}/")
    assert status == 200
    assert '<span class="pill blocked">blocked</span>' in page
    assert "is blocked and asks for help: “May I &amp; &lt;b&gt;you&lt;/b&gt;?”" in page
    status, page = await get(f"{daemon.url}/?name=seen")
    assert status == 200
    assert page.count('<span class="pill finished">finished</span>') == 2
    numbers = await samples(daemon)
    assert numbers["hivesub_runs_total", frozenset({("stop_reason", "need_help")})] >= 1
    assert numbers["hivesub_turns_total", frozenset({("outcome", "finished")})] >= 2
    assert numbers["hivesub_read_bytes_total", frozenset()] > 500
    assert numbers["hivesub_spawn_seconds_count", frozenset()] >= 1
    assert numbers["process_open_fds", frozenset()] > 3


@pytest.mark.parametrize("path", ["/", "/?name=seen", "/page.js", "/page.css", "/icon.svg", "/metrics"])
async def test_nobody_sees_anything_without_the_token(daemon: Daemon, path: str) -> None:
    assert (await get(f"{daemon.url}{path}", token=None))[0] == 401
    assert (await get(f"{daemon.url}{path}", token="wrong"))[0] == 401


async def test_the_numbers_are_read_and_nothing_else(daemon: Daemon) -> None:
    assert (await get(f"{daemon.url}/metrics", method="POST"))[0] == 405
    assert (await get(f"{daemon.url}/metrics", method="HEAD"))[0] in (200, 405)


async def test_neither_shows_the_token_nor_a_signal_url(daemon: Daemon, tmp_path: Path) -> None:
    agent = Agent(f"{daemon.url}/mcp", reactor, token=TOKEN)
    dump = tmp_path / "given.json"
    await agent.call("start", name="secret", prompt=f"!standin dump {dump}\n!standin hang", goal="g")
    record = await agent.record("secret")
    assert record["state"] == "running"
    for path in ("/", "/?name=secret", "/metrics"):
        _, text = await get(f"{daemon.url}{path}")
        assert TOKEN not in text
        assert "/signal/" not in text
    await agent.call("interrupt", name="secret")
