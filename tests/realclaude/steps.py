"""What a scripted model answers: one `Step` for each request that it gets.

Steps are values; `model` turns them into the Messages API's bytes. A step can be read from JSON, so that a
model in a process of its own takes the same scripts.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event
from typing import Any

import attrs

OVERFLOW_MESSAGE = "prompt is too long: 210000 tokens > 200000 maximum"
"""The API's text for a context overflow: claude knows it by this shape (measured, claude 2.1.332)."""


@attrs.frozen
class Step:
    """One answer of the model.

    Shape: `status` 200 streams `text` and then every call in `tools`; another status answers an API error
    with `text` as its message, and `headers` beside it. `stop_reason` stands in for the one that follows from the
    step. `hang` streams the message's start and then nothing until the client leaves.
    `after` is waited for before the first byte. Units: so is `delay_s`.
    """

    text: str = ""
    tools: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    status: int = 200
    error_type: str = "api_error"
    headers: Mapping[str, str] = attrs.field(factory=dict)
    stop_reason: str | None = None
    hang: bool = False
    delay_s: float = 0.0
    after: Event | None = None
    input_tokens: int = 10
    output_tokens: int = 5


def say(text: str, **rest: Any) -> Step:
    """The model answers `text` and ends its turn."""
    return Step(text=text, **rest)


def use(name: str, /, _text: str = "", **arguments: Any) -> Step:
    """The model calls one tool, named as claude names it to the model (`Bash`, `mcp__SERVER__TOOL`)."""
    return Step(text=_text, tools=((name, arguments),))


def refuse(status: int, message: str = "scripted failure", error_type: str = "api_error") -> Step:
    """The API answers an error status."""
    return Step(status=status, text=message, error_type=error_type)


def limit(resets_at: int, claim: str = "five_hour") -> Step:
    """The API says that a subscription's limit is used up, until that time in Unix seconds.

    claude takes it for one only with an OAuth token, see `sandbox.SUBSCRIBED` (measured, claude 2.1.332).
    """
    unified = {"status": "rejected", "reset": str(resets_at), "representative-claim": claim}
    headers = {f"anthropic-ratelimit-unified-{name}": value for name, value in unified.items()}
    return Step(status=429, text="limit reached", error_type="rate_limit_error", headers=headers)


def broken_off(stop_reason: str, text: str = "half of it") -> Step:
    """An answer that ends for another reason than that it is done."""
    return Step(text=text, stop_reason=stop_reason)


def overflow() -> Step:
    """The API says that the conversation no longer fits the context."""
    return refuse(400, OVERFLOW_MESSAGE, "invalid_request_error")


def hang(text: str = "") -> Step:
    """The answer begins with `text` and never ends."""
    return Step(text=text, hang=True)


def step_from_json(value: Mapping[str, Any]) -> Step:
    """Read a step off a JSON object whose keys are `Step`'s fields; `tools` is a list of `[name, input]`.

    Raises: TypeError for an unknown key.
    """
    fields = dict(value)
    fields["tools"] = tuple((name, arguments) for name, arguments in fields.get("tools", ()))
    return Step(**fields)
