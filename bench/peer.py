"""A peer: the same tools and the same answer from the SDK's low-level server, as its documentation has it, under
uvicorn with its defaults. `python -m bench.peer PORT FILE`, see `bench.servers`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route


def peer(told: dict[str, Any]) -> Server[Any]:
    """`told`: `tools` as listed, and the `result` of each call."""
    tools = [types.Tool.model_validate(tool) for tool in told["tools"]]
    text = told["result"]["content"][0]["text"]

    async def list_tools(
        ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(
        ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    return Server("peer", on_list_tools=list_tools, on_call_tool=call_tool)


async def healthz(request: Request) -> PlainTextResponse:
    return PlainTextResponse("ok\n")


def main(port: int, told: Path) -> None:
    server = peer(json.loads(told.read_text()))
    app = server.streamable_http_app(stateless_http=True, custom_starlette_routes=[Route("/healthz", healthz)])
    uvicorn.run(app, host="127.0.0.1", port=port)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
