"""A user's own unit: its text for this installation, and what is asked of the user's systemd."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from hivesub.cli.troubles import Refused, Unusable
from hivesub.shipped import unit_text

BOUND_S = 60
"""On a call of systemctl; the start of a daemon is in it."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@frozen
class Unit:
    """The daemon of a user, or a named one beside it.

    `config`: `${XDG_CONFIG_HOME:-~/.config}`.
    """

    name: str | None
    config: Path

    @property
    def unit(self) -> str:
        return f"hivesub@{self.name}.service" if self.name else "hivesub.service"

    @property
    def file(self) -> Path:
        return self.config / "systemd" / "user" / ("hivesub@.service" if self.name else "hivesub.service")

    @property
    def environment_file(self) -> Path:
        return self.config / "hivesub" / f"{self.name or 'hivesub'}.env"

    @property
    def others(self) -> list[str]:
        """The other units that are enabled and made of the same file."""
        if self.name is None:
            return []
        enabled = self.file.parent.glob("*.wants/hivesub@*.service")
        return sorted(path.name for path in enabled if path.name != self.unit)


def unit_for(name: str | None, environ: Mapping[str, str]) -> Unit:
    """The unit of a name; None for the one without.

    :raises Unusable: when the name is none that a unit can have.
    """
    if name is not None and not _NAME.fullmatch(name):
        raise Unusable(f"{name!r} is no name for a unit: 1 to 64 of A-Z a-z 0-9 . _ -, the first a letter or digit")
    base = environ.get("XDG_CONFIG_HOME", "")
    return Unit(name, Path(base) if os.path.isabs(base) else Path("~/.config").expanduser())


def text_of(unit: Unit, environ: Mapping[str, str]) -> str:
    """The unit as it is to be written: it runs this very installation, with the programs that this shell finds."""
    text = unit_text(unit.file.name)
    places = [place for place in environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(place)]
    lines = {"ExecStart=": f"ExecStart={_command()}", "Environment=PATH=": f"Environment={_word(_path(places))}"}
    for begins, line in lines.items():
        text, count = re.subn(f"^{begins}.*$", lambda _, line=line: line, text, flags=re.MULTILINE)  # type: ignore[misc]
        assert count == 1
    return text


def environment_text(given: Mapping[str, str]) -> str:
    """The text of an environment file, by systemd.exec(5)."""
    quoted = {variable: re.sub(r'(["\\`$])', r"\\\1", value) for variable, value in given.items()}
    return "".join(f'{variable}="{value}"\n' for variable, value in quoted.items())


def _path(places: list[str]) -> str:
    local = os.path.expanduser("~/.local/bin")
    return "PATH=" + os.pathsep.join(dict.fromkeys([*places, local]))


def _command() -> str:
    program = Path(sys.executable).parent / "hivesub"
    words = [str(program)] if program.exists() else [sys.executable, "-m", "hivesub.cli.main"]
    return " ".join(_word(word).replace("$", "$$") for word in [*words, "serve"])


def _word(text: str) -> str:
    """A word of a unit file, by systemd.syntax(7) and systemd.unit(5): quoted where it has to be, and no specifier."""
    text = text.replace("%", "%%")
    if re.fullmatch(r"[\w%@:=+,./-]+", text, re.ASCII):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def answers() -> bool:
    """Whether this user has a systemd that can be asked."""
    return shutil.which("systemctl") is not None and _systemctl("show-environment").returncode == 0


def ask(*argv: str) -> None:
    """Ask the user's systemd for something.

    :raises Refused: when it does not do so.
    """
    done = _systemctl(*argv)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise Refused(f"systemctl --user {' '.join(argv)} failed: {said or f'status {done.returncode}'}")


def _systemctl(*argv: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["systemctl", "--user", "--no-pager", *argv],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=BOUND_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(argv, 1, "", str(error))
