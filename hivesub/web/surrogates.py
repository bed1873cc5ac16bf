"""Half a surrogate pair in the JSON of a request, which a tool refuses by the field's name.

The SDK's parser for clients of the handshake era refuses the whole request instead, before a tool hears of it; its
parser for the newer era lets it through.
"""

from __future__ import annotations

import json
import re
from typing import Any

# All escapes, so that none is taken for one that begins with an escaped backslash; and the three bytes of half a pair,
# which are no UTF-8. What group 1 matches stays.
_ESCAPES = re.compile(
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u(?![dD][89a-fA-F])|\\[^u])"
    rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\xed[\xa0-\xbf][\x80-\xbf]"
)


def mended(body: bytes) -> tuple[bytes, Any] | None:
    """For a tool call with half a pair in its arguments: the body with U+FFFD in place of each, as long as before, and
    the arguments as they were sent. None for any other body.
    """
    if b"\\ud" not in body and b"\\uD" not in body and b"\xed" not in body:
        return None
    whole = _ESCAPES.sub(_replacement, body)
    if whole == body:
        return None
    try:
        request = json.loads(body)
        arguments = request["params"].pop("arguments")
        # An id, a method or a name that would have to be mended is left to the SDK to refuse.
        json.dumps(request, ensure_ascii=False).encode()
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None
    return whole, arguments


def _replacement(found: re.Match[bytes]) -> bytes:
    if found[1] is not None:
        return found[0]
    return b"\\ufffd" if found[0].startswith(b"\\") else b"\xef\xbf\xbd"
