"""Calls the daemon's tools through the official SDK's client."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

# The SDK's own HTTP client, which its transport takes as an argument.
import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import RequestParamsMeta, TextContent

from hivesub.cli.bearer import saved_token_path
from hivesub.cli.given import Target
from hivesub.cli.troubles import Refused, Unreachable
from hivesub.shapes import Record

CONNECT_S = 5.0
ANSWER_S = 70.0
"""Longer than the longest answer: `status` waits up to 50 s, `interrupt` 10 s."""
AS_RECORD = cast(RequestParamsMeta, {"hivesub/record": True})
"""In a call's `_meta`: answer with the record too. By default an answer is text, for a model."""


def token_for(target: Target) -> str | None:
    """The token to show: of the file that was named, else, to a daemon on this machine, the saved one.

    :raises Unreachable: when a file cannot be read, or holds only a hash.
    """
    if target.token_file is not None:
        return read_token(target.token_file)
    saved = saved_token_path(os.environ)
    return read_token(saved) if target.is_here and saved.exists() else None


def read_token(path: Path | None) -> str | None:
    """The token in a file, None without one.

    :raises Unreachable: when it cannot be read, or holds only a hash.
    """
    if path is None:
        return None
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise Unreachable(f"the token file {path} cannot be read: {why}") from None
    if token.lower().startswith("sha256:"):
        raise Unreachable(
            f"{path} holds a hash of the token, as the daemon needs it; give a file with the token itself"
        )
    if len(token.split()) != 1 or not token.isascii():
        raise Unreachable(f"{path} must hold one token, on one line")
    return token


class Calls:
    """A connection to a daemon's `/mcp`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def call(self, tool: str, **arguments: Any) -> Any:
        """A tool's answer as JSON (`hivesub.shapes`); arguments that are None are left out.

        :raises Refused: when the answer is an error.
        """
        given = {name: value for name, value in arguments.items() if value is not None}
        result = await self._client.call_tool(tool, given, meta=AS_RECORD)
        if result.is_error or result.structured_content is None:
            raise Refused("\n".join(block.text for block in result.content if isinstance(block, TextContent)))
        return dict(result.structured_content)

    async def record(self, name: str, **arguments: Any) -> Record:
        """One subagent's record, as `status` gives it."""
        record: Record = (await self.call("status", name=name, **arguments))["subagents"][0]
        return record


@asynccontextmanager
async def connected(url: str, token: str | None) -> AsyncIterator[Calls]:
    """A connection to the daemon at a base URL.

    :raises Unreachable: when there is none, also when it goes away later.
    :raises Refused: when a request is too large for it.
    """
    too_large: list[str] = []

    async def hear(response: httpx2.Response) -> None:
        # The SDK says of it no more than that it is an error; the daemon's own line says what would work.
        if response.status_code == 413:
            await response.aread()
            too_large.append(response.text.strip())

    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    # No proxy of the environment: the daemon is on this machine, or named by its operator.
    timeout = httpx2.Timeout(ANSWER_S, connect=CONNECT_S)
    async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=timeout) as http:
        await _look(http, f"{url}/mcp")
        http.event_hooks = {"response": [hear]}
        try:
            async with Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client:
                yield Calls(client)
        except BaseException as error:
            # The SDK's task groups wrap whatever goes through them, what the caller's own block raised too.
            why = _innermost(error)
            if isinstance(why, httpx2.HTTPError | ConnectionError | MCPError):
                if too_large:
                    raise Refused(too_large[0]) from None
                words = str(why) or type(why).__name__
                raise Unreachable(f"the daemon at {url} has stopped answering: {words}") from None
            raise why from None


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _look(http: httpx2.AsyncClient, endpoint: str) -> None:
    """Ask the plain way first, for an error that a person understands: a GET of the endpoint is refused by its method,
    after all else was checked.
    """
    try:
        status = (await http.get(endpoint)).status_code
    except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:
        raise Unreachable(
            f"no daemon answers at {endpoint}: {str(error) or type(error).__name__}. "
            "Start one with `hivesub serve`, or name another with --url or HIVESUB_URL"
        ) from None
    if status == 401:
        wants = "another token than the one that it was shown" if "Authorization" in http.headers else "its token"
        raise Unreachable(
            f"the daemon at {endpoint} asks for {wants}: give the file that holds it with --auth-token-file or "
            "HIVESUB_AUTH_TOKEN_FILE; a lost one is replaced by `hivesub token --force --save`"
        )
    if status == 421:
        raise Unreachable(
            f"the daemon at {endpoint} is not served under this name: use the URL that it logged at start"
        )
    if status != 405:
        raise Unreachable(f"what answers at {endpoint} is no hivesub daemon (status {status} to a GET)")
