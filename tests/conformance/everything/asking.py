"""What asks the client: by a request of the server's own (the handshake eras), or by an answer that says what input is
missing and is called again with it (2026-07-28).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.shared.exceptions import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel, Field, create_model

_CHOICES = ["active", "inactive", "pending"]


def _field(kind: type, default: Any = ..., /, **schema: Any) -> Any:
    return (kind, Field(default, json_schema_extra=schema or None))


class Answered(BaseModel):
    """What `test_elicitation` asks for."""

    response: str


WithDefaults: type[BaseModel] = create_model(
    "WithDefaults",
    name=_field(str, "John Doe"),
    age=_field(int, 30),
    score=_field(float, 95.5),
    status=_field(str, "active", enum=_CHOICES),
    verified=_field(bool, True),
)


def _titled(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"const": const, "title": title} for const, title in pairs]


WithEnums: type[BaseModel] = create_model(
    "WithEnums",
    untitledSingle=_field(str, enum=_CHOICES),
    titledSingle=_field(str, oneOf=_titled(("low", "Low"), ("medium", "Medium"), ("high", "High"))),
    untitledMulti=_field(list[str], items={"type": "string", "enum": ["read", "write", "execute"]}),
    titledMulti=_field(list[str], items={"anyOf": _titled(("bug", "Bug"), ("docs", "Docs"), ("feature", "Feature"))}),
    legacyEnum=_field(str, enum=["small", "large"], enumNames=["Small size", "Large size"]),
)


def _question(message: str, *fields: str, kind: str = "string") -> ElicitRequest:
    schema = {"type": "object", "properties": {name: {"type": kind} for name in fields}, "required": list(fields)}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def _message(text: str) -> SamplingMessage:
    return SamplingMessage(role="user", content=TextContent(type="text", text=text))


def _sample(text: str) -> CreateMessageRequest:
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[_message(text)], max_tokens=50))


def add_requests_to_the_client(server: MCPServer) -> None:
    """Sampling and elicitation as the handshake eras have them."""

    @server.tool()
    async def test_sampling(prompt: str, ctx: Context) -> str:
        """Asks the client's model"""
        # Related to the call, it goes out on the call's own stream: one of the server's own may not be open yet.
        said = await ctx.session.create_message(
            messages=[_message(prompt)], max_tokens=50, related_request_id=ctx.request_id
        )
        return f"LLM response: {getattr(said.content, 'text', '')}"

    def asks(name: str, schema: type[BaseModel]) -> None:
        async def ask(ctx: Context, message: str = "Please answer") -> str:
            answer = await ctx.elicit(message=message, schema=schema)
            given = answer.data.model_dump_json() if answer.action == "accept" else "{}"
            return f"User response: action={answer.action}, content={given}"

        server.add_tool(ask, name=name, description="Asks the user")

    asks("test_elicitation", Answered)
    asks("test_elicitation_sep1034_defaults", WithDefaults)
    asks("test_elicitation_sep1330_enums", WithEnums)


def add_missing_inputs(server: MCPServer) -> None:
    """Tools and a prompt whose first answer says which input they need."""

    def needs(name: str, inputs: Mapping[str, Any], state: str | None = None) -> None:
        async def call(ctx: Context) -> str | InputRequiredResult:
            given = ctx.input_responses or {}
            if inputs.keys() <= given.keys() and ctx.request_state == state:
                told = {key: given[key].model_dump(mode="json", exclude_none=True) for key in inputs}
                return f"state-ok: {json.dumps(told)}"
            return InputRequiredResult(input_requests=dict(inputs), request_state=state)

        server.add_tool(call, name=f"test_input_required_result_{name}", description="Needs input from the client")

    name = _question("What is your name?", "name")
    confirm = _question("Please confirm", "ok", kind="boolean")
    needs("elicitation", {"user_name": name})
    needs("sampling", {"capital_question": _sample("What is the capital of France?")})
    needs("list_roots", {"client_roots": ListRootsRequest()})
    needs("request_state", {"confirm": confirm}, "a state that only this server can read")
    needs("tampered_state", {"confirm": confirm}, "a state that nobody can change")
    everything = {"user_name": name, "greeting": _sample("Greet"), "client_roots": ListRootsRequest()}
    needs("multiple_inputs", everything, "all at once")

    @server.tool()
    async def test_input_required_result_multi_round(ctx: Context) -> str | InputRequiredResult:
        """Asks twice, and keeps the first answer in the state"""
        known = json.loads(ctx.request_state or "{}")
        for key, answer in (ctx.input_responses or {}).items():
            known[key] = (getattr(answer, "content", None) or {}).get(key)
        questions = {"step1": "Step 1: What is your name?", "step2": "Step 2: What is your favourite colour?"}
        for key, question in questions.items():
            if key not in known:
                return InputRequiredResult(
                    input_requests={key: _question(question, key)}, request_state=json.dumps(known)
                )
        return json.dumps(known)

    @server.tool()
    async def test_input_required_result_capabilities(ctx: Context) -> InputRequiredResult:
        """Asks only what the client says it can answer"""
        able = ctx.client_capabilities
        requests: dict[str, Any] = {}
        if able is not None and able.sampling is not None:
            requests["sample"] = _sample("Say hello")
        if able is not None and able.elicitation is not None:
            requests["ask"] = name
        return InputRequiredResult(input_requests=requests, request_state="whatever it is")

    @server.tool()
    async def test_missing_capability(ctx: Context) -> str:
        """Works only with a client that can sample"""
        able = ctx.client_capabilities
        if able is None or able.sampling is None:
            raise MCPError(
                code=MISSING_REQUIRED_CLIENT_CAPABILITY,
                message="needs a client that can sample",
                data={"requiredCapabilities": {"sampling": {}}},
            )
        return "the client can sample"

    @server.prompt()
    async def test_input_required_result_prompt(ctx: Context) -> list[UserMessage] | InputRequiredResult:
        """Needs input from the client"""
        answer = (ctx.input_responses or {}).get("user_context")
        if answer is None:
            question = _question("What is the context?", "context")
            return InputRequiredResult(input_requests={"user_context": question})
        given = (getattr(answer, "content", None) or {}).get("context")
        return [UserMessage(role="user", content=TextContent(type="text", text=f"The context is: {given}"))]
