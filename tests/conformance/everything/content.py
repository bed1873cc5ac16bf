"""What is answered at once: contents of every kind, resources, prompts, a schema with every keyword, an error."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Annotated, Any

from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp_types import (
    AudioContent,
    Completion,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)
from pydantic import Field

STATIC_TEXT = "test://static-text"
STATIC_BINARY = "test://static-binary"
WATCHED = "test://watched-resource"


def _png() -> bytes:
    """One red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0"))
        + chunk(b"IEND", b"")
    )


def _wav() -> bytes:
    """A sound without a sample."""
    form = struct.pack("<HHIIHH", 1, 1, 8000, 16000, 2, 16)
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", 0)
    return b"RIFF" + struct.pack("<I", len(body)) + body


PNG = _png()
IMAGE = ImageContent(type="image", data=base64.b64encode(PNG).decode(), mime_type="image/png")
AUDIO = AudioContent(type="audio", data=base64.b64encode(_wav()).decode(), mime_type="audio/wav")

SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def _text(text: str) -> TextContent:
    return TextContent(type="text", text=text)


def _embedded(uri: str, text: str, mime_type: str = "text/plain") -> EmbeddedResource:
    contents = TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return EmbeddedResource(type="resource", resource=contents)


def _said(*contents: Any) -> list[UserMessage]:
    return [UserMessage(role="user", content=content) for content in contents]


def add_tools(server: MCPServer) -> None:
    """One tool for each kind of content, and three that answer otherwise."""
    fixed: dict[str, list[Any]] = {
        "test_simple_text": [_text("This is a simple text response for testing.")],
        "test_image_content": [IMAGE],
        "test_audio_content": [AUDIO],
        "test_embedded_resource": [_embedded("test://embedded-resource", "This is an embedded resource content.")],
        "test_multiple_content_types": [
            _text("Multiple content types test:"),
            IMAGE,
            _embedded("test://mixed-content-resource", json.dumps({"test": "data", "value": 123}), "application/json"),
        ],
    }

    def fix(name: str, contents: list[Any]) -> None:
        def answer() -> Any:
            return contents

        server.add_tool(answer, name=name, description=f"Always answers the same {name[5:]}", structured_output=False)

    for name, contents in fixed.items():
        fix(name, contents)

    def test_error_handling() -> str:
        raise RuntimeError("This tool intentionally returns an error for testing")

    def test_x_mcp_header(
        region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "nowhere",
    ) -> str:
        return f"region: {region}"

    def json_schema_2020_12_tool() -> str:
        return "listed, and that is all"

    for tool in (test_error_handling, test_x_mcp_header, json_schema_2020_12_tool):
        server.add_tool(tool, description=f"For the scenario that asks for {tool.__name__}")
    listed = server._tool_manager.get_tool("json_schema_2020_12_tool")
    assert listed is not None
    # The high-level server has no way to give a schema of one's own.
    listed.parameters = SCHEMA_2020_12


def add_resources(server: MCPServer) -> None:
    """Text, bytes, a template, and one that can be subscribed to."""

    @server.resource(STATIC_TEXT)
    def static_text() -> str:
        """Text"""
        return "This is the content of the static text resource."

    @server.resource(STATIC_BINARY, mime_type="image/png")
    def static_binary() -> bytes:
        """Bytes"""
        return PNG

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def templated(id: str) -> str:
        """What depends on the URI"""
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})

    @server.resource(WATCHED)
    def watched() -> str:
        """Can be subscribed to"""
        return "nothing has changed"


def add_prompts(server: MCPServer) -> None:
    """With and without arguments, with text, a resource and an image."""

    @server.prompt()
    def test_simple_prompt() -> list[UserMessage]:
        """Without arguments"""
        return _said(_text("This is a simple prompt for testing."))

    @server.prompt()
    def test_prompt_with_arguments(arg1: str, arg2: str) -> list[UserMessage]:
        """With two arguments"""
        return _said(_text(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"))

    @server.prompt()
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
        """With a resource"""
        return _said(_embedded(resourceUri, "Embedded resource content for testing."), _text("See the resource above."))

    @server.prompt()
    def test_prompt_with_image() -> list[UserMessage]:
        """With an image"""
        return _said(IMAGE, _text("See the image above."))


def add_requests(server: MCPServer) -> None:
    """Completion, log levels and subscriptions: accepted, and nothing done about them."""

    @server.completion()  # type: ignore[no-untyped-call,untyped-decorator]
    async def complete(ref: Any, argument: Any, context: Any) -> Completion:
        return Completion(values=[], total=0, has_more=False)

    async def accept(ctx: ServerRequestContext[Any, Any], params: Any) -> EmptyResult:
        return EmptyResult()

    lowlevel = server._lowlevel_server
    lowlevel.add_request_handler("logging/setLevel", SetLevelRequestParams, accept)
    lowlevel.add_request_handler("resources/subscribe", SubscribeRequestParams, accept)
    lowlevel.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, accept)
