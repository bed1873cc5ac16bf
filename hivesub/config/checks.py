"""The operator's file of checks: named commands whose exit code a claim can be held against.

Owns the file's shape and its errors. Running one is `hivesub.turns.check`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from attrs import frozen
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from hivesub.config.jsonfile import parsed
from hivesub.errors import ConfigError

DEFAULT_TIMEOUT_S = 600.0
MAX_TIMEOUT_S = 24 * 3600.0
SHAPE = '{"name": {"argv": ["make", "test"], "timeout_s": 600}}'

_NAME = TypeAdapter(Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")])
_Word = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]


@frozen(kw_only=True)
class Check:
    """One check. `argv`: never empty; `timeout_s`: how long it may take."""

    name: str
    argv: tuple[str, ...]
    timeout_s: float


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    argv: Annotated[list[_Word], Field(min_length=1)]
    timeout_s: Annotated[float, Field(gt=0, le=MAX_TIMEOUT_S, allow_inf_nan=False, strict=False)] = DEFAULT_TIMEOUT_S


def read_checks(text: str, source: str) -> Mapping[str, Check]:
    """Check a file of checks whole.

    :param source: what errors call the file, such as `--checks: /etc/hivesub/checks.json`.
    :returns: the checks by name, in the file's order.
    :raises ConfigError: names the file, the check and the key at fault.
    """
    whole = parsed(text, source)
    if not isinstance(whole, dict):
        raise ConfigError(f"{source}: must be a JSON object of the shape {SHAPE}")
    return {name: _read(name, entry, f"{source}: check {name[:80]!r}") for name, entry in whole.items()}


def _read(name: str, entry: Any, where: str) -> Check:
    try:
        _NAME.validate_python(name)
    except ValidationError:
        raise ConfigError(f"{where}: its name must be 1 to 64 of A-Z a-z 0-9 . _ -, first a letter or digit") from None
    try:
        read = _Entry.model_validate(entry)
    except ValidationError as error:
        raise ConfigError(f"{where}: {'; '.join(map(_fault, error.errors(include_url=False)))}") from None
    if not read.argv[0].strip():
        raise ConfigError(f"{where}: argv: its first word must be the name or path of a program")
    return Check(name=name, argv=tuple(read.argv), timeout_s=read.timeout_s)


def _fault(error: Any) -> str:
    key = str(error["loc"][0]) if error["loc"] else ""
    if error["type"] == "extra_forbidden":
        return f"{key[:80]!r} is no key of a check; they are argv and timeout_s"
    if key == "argv":
        return "argv: must be a list of one text or more, the program and its arguments"
    if key == "timeout_s":
        return f"timeout_s: must be a number of seconds above 0 up to {MAX_TIMEOUT_S:g}"
    return f"must be an object of the shape {SHAPE[9:-1]}"
