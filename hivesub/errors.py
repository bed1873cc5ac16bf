"""The refusals a caller can meet, one class each. Owns no texts of tools: `hivesub.tools` puts the tool's name before
them.
"""

from __future__ import annotations


class HivesubError(Exception):
    """The base of all errors that reach a caller: `str(error)` says why, and what would work."""


class BadRequest(HivesubError):
    """Raised when a field of a call cannot be used; the text names the field. Nothing has changed."""


class Unanswered(HivesubError):
    """Raised when a file system does not answer in time; the text names what was to be looked at on it."""


class UnknownName(HivesubError):
    """Raised when no subagent bears the name; the text lists the known names."""


class AlreadyRunning(HivesubError):
    """Raised by `start` and `continue` on a name whose run is going on; the text says in which state it is."""


class NotRunning(HivesubError):
    """Raised by `interrupt` on a subagent that is not running; the text says what it is."""


class TooManyRunning(HivesubError):
    """Raised when `--max-running` runs are going on already. Nothing is queued."""


class Stopping(HivesubError):
    """Raised by `start` and `continue` once the daemon has begun to stop."""


class RequestKeyReused(HivesubError):
    """Raised when a `request_key` comes again with other arguments than the call that it named."""


class SpawnError(HivesubError):
    """Raised when no process could be made: claude or a directory is missing, or the system refused."""


class UnsupportedClaude(SpawnError):
    """Raised when the claude found lacks a flag without which a subagent would not be confined; names its version."""


class ContinueFailed(HivesubError):
    """Raised by `continue` when claude exited before its turn was under way; the text carries claude's own message."""


class StillRunning(HivesubError):
    """Raised by `interrupt` when the child has not gone within 10 s of the first signal."""


class AppendError(HivesubError):
    """Raised when a line could not be appended to a file; the text says which path and why."""


class ConfigError(HivesubError):
    """Raised at start when the operator's configuration cannot be used; the text names the option or file."""
