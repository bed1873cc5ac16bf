"""What a command ends with when it cannot be done: one line on stderr and an exit code. Light, as every command may
raise one.
"""

from __future__ import annotations

from typing import ClassVar

from hivesub.cli.exits import Exit


class Trouble(Exception):
    """Raised when a command cannot be done; the text says why, and what would work."""

    exit: ClassVar[Exit] = Exit.USAGE


class Unusable(Trouble):
    """Raised when something given on the command line, on stdin or in a file of this user cannot be used."""


class Refused(Trouble):
    """Raised when the daemon refused a call; the text is the daemon's."""

    exit = Exit.REFUSED


class Unreachable(Trouble):
    """Raised when no daemon answers at the URL, or it does not take the token."""

    exit = Exit.UNREACHABLE
