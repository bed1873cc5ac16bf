"""How `/metrics` answers over HTTP, whatever it is asked with."""

from __future__ import annotations

import pytest

from hivesub.web.metrics import Metrics
from tests.integration.web_server import connected, on_the_loop, served
from tests.support.pagefakes import FakeOperatorView

OPEN = "application/openmetrics-text"


async def content_type(accept: str) -> str:
    async with served(Metrics(FakeOperatorView())) as port, connected(port) as client:
        client.request("GET", "/metrics", port, headers=f"{accept}Connection: close\r\n")
        status, headers = await client.head()
        assert status == 200
        assert b"hivesub_running" in await client.reader.read()
        return headers["content-type"]


@pytest.mark.parametrize(
    "accept",
    [f"Accept: {OPEN}; version=abc; escaping=zzz\r\n", "Accept: text/plain\r\nAccept: text/plain;version=x\r\n", ""],
)
@on_the_loop
async def test_who_asks_for_no_format_that_there_is_gets_one_that_there_is(accept: str) -> None:
    # prometheus_client before 0.22 does not look at the version of OpenMetrics, and answers with its own.
    assert (await content_type(accept)).startswith(("text/plain; version=0.0.4", f"{OPEN}; version=1.0.0"))


@on_the_loop
async def test_who_asks_for_openmetrics_gets_it() -> None:
    assert (await content_type(f"Accept: {OPEN}; version=1.0.0\r\n")).startswith(f"{OPEN}; version=1.0.0")


@on_the_loop
async def test_head_gets_all_but_the_text() -> None:
    async with served(Metrics(FakeOperatorView())) as port, connected(port) as client:
        client.request("HEAD", "/metrics", port, headers="Connection: close\r\n")
        status, headers = await client.head()
        assert (status, headers["content-type"].split(";")[0]) == (200, "text/plain")
        assert await client.reader.read() == b""


@pytest.mark.parametrize("method", ["OPTIONS", "POST", "DELETE"])
@on_the_loop
async def test_other_methods_are_405(method: str) -> None:
    async with served(Metrics(FakeOperatorView())) as port, connected(port) as client:
        client.request(method, "/metrics", port)
        status, headers = await client.head()
        assert (status, headers["allow"]) == (405, "get, head")
