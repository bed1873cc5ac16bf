"""How the end of a run is announced: first in the report file, then by the todo, which can then say what became of the
report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.logger import Logger

from hivesub.errors import AppendError
from hivesub.records import TodoState
from hivesub.runs.record import minimal_record
from hivesub.runs.report import report_text
from hivesub.runs.tally import Tally
from hivesub.todos.todo import build_todo
from hivesub.waiters import OneShot

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from hivesub.interfaces import IOutbox, IReport
    from hivesub.runs.run import Run
    from hivesub.shapes import Record, Todo


class Announcer:
    """Announces the ends of runs.

    :param new_id: gives a fresh UUID as text, for a todo.

    `tally`: the daemon's one, as the fleet counts into it too.
    """

    log = Logger()

    def __init__(
        self,
        *,
        report: IReport,
        outbox: IOutbox,
        now: Callable[[], datetime],
        redact: Callable[[str], str],
        new_id: Callable[[], str],
    ) -> None:
        self._report = report
        self._outbox = outbox
        self._now = now
        self._redact = redact
        self._new_id = new_id
        self.tally = Tally()
        self._announcing: set[Run] = set()
        self._appending: set[Deferred[None]] = set()
        self._idle: OneShot[None] | None = None

    def announce(self, run: Run, recorded: Callable[[], Record]) -> Deferred[None]:
        """Append to the report where there is one, then push the todo.

        :param recorded: gives the record as it is now.
        :returns: fires when the todo was handed on; an error of the report is kept in the run and is part of the todo.
        """
        self._announcing.add(run)
        announcing = Deferred.fromCoroutine(self._announce(run, recorded))
        announcing.addBoth(self._announced, run)
        return announcing

    async def _announce(self, run: Run, recorded: Callable[[], Record]) -> None:
        if run.report_file is not None:
            await self._append(run, run.report_file, recorded)

        def changed(state: TodoState) -> None:
            old, run.todo = run.todo, state
            self.tally.todo_moved(old, state)

        try:
            self._outbox.push(self._todo(run, recorded), changed)
        except Exception:
            self.log.failure("the todo of {name} was not handed on", name=run.name)
            changed(TodoState.UNDELIVERED)

    async def _append(self, run: Run, path: str, recorded: Callable[[], Record]) -> None:
        try:
            text = self._redact(report_text(recorded(), self._now()))
            appending = self._report.append(path, text, run.report_within)
            self._appending.add(appending)
            try:
                await appending
            finally:
                self._appending.discard(appending)
        except AppendError as error:
            run.add_report_error(self._redact(str(error)))
        except CancelledError:
            run.add_report_error("the report was still blocked when the daemon stopped: whether it will be is unknown")
        except Exception:
            self.log.failure("the report of {name} was not written", name=run.name)
            run.add_report_error("the report was not written: internal error; see the daemon's log")

    def _todo(self, run: Run, recorded: Callable[[], Record]) -> Todo:
        try:
            return self._built(run, recorded())
        except Exception as error:
            return self._built(run, minimal_record(run, error))

    def _built(self, run: Run, record: Record) -> Todo:
        run.todo_id = self._new_id()
        return build_todo(record, todo_id=run.todo_id, created_at=self._now(), redact=self._redact)

    def give_up_reports(self) -> None:
        """Wait for no append any longer: the todos that wait for one go out, and say so."""
        for appending in list(self._appending):
            appending.cancel()

    def _announced(self, result: object, run: Run) -> object:
        self._announcing.discard(run)
        idle = self._idle
        if not self._announcing and idle is not None:
            self._idle = None
            idle.fire(None)
        return result

    def settled(self) -> Deferred[None]:
        """Fires once no end is being announced."""
        if not self._announcing:
            return succeed(None)
        self._idle = self._idle or OneShot()
        return self._idle.wait()
