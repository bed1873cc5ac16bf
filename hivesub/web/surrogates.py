"""Half a surrogate pair in the JSON of a request, which a tool refuses by the field's name.

The SDK's parser for clients of the handshake era refuses the whole request instead, before a tool hears of it; its
parser for the newer era lets it through.
"""

from __future__ import annotations

import json
import re
from typing import Any

from hivesub.wording import valid_text

# As its three bytes, which are no UTF-8.
_UNESCAPED = re.compile(rb"\xed[\xa0-\xbf]")


def mended(body: bytes) -> tuple[bytes, Any] | None:
    """For a tool call with half a pair in its arguments: a body with U+FFFD in place of each half, and the arguments as
    they were sent. None for any other body.
    """
    if b"\\ud" not in body and b"\\uD" not in body and _UNESCAPED.search(body) is None:
        return None
    try:
        request = json.loads(body)
        text = json.dumps(request, ensure_ascii=False, separators=(",", ":"))
        whole = valid_text(text)
        if whole == text:
            return None
        arguments = request["params"].pop("arguments")
        # An id, a method or a name that would have to be mended is left to the SDK to refuse.
        json.dumps(request, ensure_ascii=False).encode()
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None
    return whole.encode(), arguments
