"""Headers for requests by treq."""

from __future__ import annotations

from collections.abc import Mapping

from twisted.web.http_headers import Headers


def headers_of(plain: Mapping[str, str] | None) -> Headers:
    """Headers of one value each."""
    return Headers({name: [value] for name, value in (plain or {}).items()})
