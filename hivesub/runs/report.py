"""The report file: which path is meant, what is appended at the end of a run, and how that never blocks the daemon.

Owns the report's text and paths. When a report is due, and what becomes of an error, is decided in `announcement`.
"""

from __future__ import annotations

import os
from datetime import datetime

from attrs import frozen
from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from hivesub.errors import AppendError, BadRequest
from hivesub.interfaces import IReport
from hivesub.shapes import Record
from hivesub.system.appendfile import InThread, append_whole, resolved_within
from hivesub.wording import (
    check_sentence,
    claims_sentence,
    outcome_sentence,
    rfc3339,
    stop_sentence,
    turn_phrase,
    valid_text,
)


def resolve_report_path(path: str, dir: str | os.PathLike[str]) -> str:
    """The absolute path that a `report_file` means: `~` expanded, else relative to `dir`. Touches no disk; symlinks
    stay.

    :raises BadRequest: when no file can have this path.
    """
    if not path.strip():
        raise BadRequest("report_file: it is blank; give a path, or leave it out")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise BadRequest("report_file: it holds characters that no file name has") from None
    if "\0" in path:
        raise BadRequest("report_file: it holds a NUL, which no path can")
    return os.path.join(os.path.abspath(dir), os.path.expanduser(path))


def check_within(path: str, dir: str | os.PathLike[str]) -> str | None:
    """The resolved path of a report that a *subagent* names, or None when it does not lie inside `dir` (symlinks
    followed).

    The append checks again (`IReport.append` with `within=dir`): what is inside now may be a link by then.
    """
    try:
        absolute = resolve_report_path(path, dir)
    except BadRequest:
        return None
    return resolved_within(absolute, os.fspath(dir))


def report_text(record: Record, when: datetime) -> str:
    """What is appended at the end of a run: name, time, turn N of M, outcome, reason. Valid UTF-8; begins and ends
    with a newline.

    Lines that a subagent's message brings are indented, so that none of them passes for an entry of its own.
    """
    heading = ", ".join(filter(None, [f"subagent {record['name']}", rfc3339(when), turn_phrase(record)]))
    lines = [
        f"Outcome: {outcome_sentence(record) or 'No turn of this run ended.'}",
        f"Stop reason: {stop_sentence(record)}",
        check_sentence(record),
        claims_sentence(record),
    ]
    body = "\n".join("\n  ".join(line.splitlines()) for line in lines if line)
    return valid_text(f"\n## {heading}\n{body}\n")


@implementer(IReport)
@frozen(kw_only=True)
class ReportFile:
    """Appends in a thread and waits `bound_s` seconds for it at most. A thread that is blocked longer is left behind:
    its append may still come to pass, and the error says so."""

    clock: IReactorTime
    in_thread: InThread
    bound_s: float = 5.0

    def append(self, path: str, text: str, within: str | None) -> Deferred[None]:
        return Deferred.fromCoroutine(self._append(path, valid_text(text).encode(), within))

    async def _append(self, path: str, data: bytes, within: str | None) -> None:
        shown = valid_text(path)
        try:
            await self.in_thread(append_whole, path, data, within).addTimeout(self.bound_s, self.clock)
        except (AppendError, CancelledError):
            raise
        except TimeoutError:
            raise AppendError(
                f"cannot append to {shown}: still blocked after {self.bound_s:g} s, so whether it will be is unknown"
            ) from None
        except Exception as e:  # no thread to be had
            raise AppendError(f"cannot append to {shown}: {valid_text(str(e))}") from e
