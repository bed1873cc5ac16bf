"""One claude process, from spawn to exit. Owns liveness and the moment of the end; `outcome` says what kind of end it
was.

The end is the conjunction of three facts, each of which comes once and in any order that the system likes: the process
has exited, its pipes are closed or drained, and nothing that must go is left running. There is no state beside them,
hence no machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger
from zope.interface import implementer

from hivesub.interfaces import ITurn
from hivesub.records import CONTROL_SERVER, Control, Outcome, Retrying
from hivesub.turns.activity import Activity
from hivesub.turns.granted import not_as_granted
from hivesub.turns.outcome import broken, judge
from hivesub.turns.pipes import let_go
from hivesub.turns.stream import Stream, Tail
from hivesub.waiters import OneShot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import datetime

    from twisted.internet.defer import Deferred
    from twisted.internet.interfaces import IDelayedCall, IProcessTransport, IReactorTime
    from twisted.python.failure import Failure

    from hivesub.records import Init, Result, SettingsSeen, TurnEnd, TurnSpec
    from hivesub.turns.ladder import Ladder

LINGER_S = 30.0
"""Seconds of silence after a last result until a child that does not exit is ended."""
DRAIN_TICK_S = 0.1
"""Seconds of silence after the exit that show that the pipes hold nothing more."""
DRAIN_TICKS = 10
"""How many ticks output may go on to arrive after the exit: a grandchild can write for ever."""
REQUEST_S = 1.0
"""How long the end waits for requests that came by this turn's URL before the exit was seen."""


@implementer(ITurn)
class Turn(ProcessProtocol):
    """A `ProcessProtocol` whose `outReceived` and `errReceived` set the turn's last-event time.

    :param make_ladder: gives the kill ladder for a child's id; its second argument is to be called when all is clear.
    :param now: the wall clock, for what is reported; durations come from `clock` alone.
    :param settings_seen: what the settings were that claude took up.
    :param servers: the MCP servers of its config, the signal route aside.
    :param exited: called once, at the moment that the child's exit is seen, before anything else happens.
    """

    log = Logger()

    def __init__(
        self,
        spec: TurnSpec,
        mark: str,
        *,
        clock: IReactorTime,
        now: Callable[[], datetime],
        redact: Callable[[str], str],
        make_ladder: Callable[[int, Callable[[], None]], Ladder],
        exited: Callable[[], None],
        settings_seen: SettingsSeen | None = None,
        servers: Collection[str] = (),
    ) -> None:
        self.spec = spec
        self.mark = mark
        self.settings_seen = settings_seen
        self.pid: int | None = None
        self.last_event_at: float | None = clock.seconds()
        self.control = Control.UNKNOWN
        self.open_requests = 0
        self._clock = clock
        self._now = now
        self._redact = redact
        self._make_ladder = make_ladder
        self._exited = exited
        self._servers = servers
        self._activity = Activity()
        self._stream = Stream()
        self._stderr = Tail()
        self._ladder: Ladder | None = None
        self._stop_reason: str | None = None
        self._lingered = False
        self._lingered_result: Result | None = None
        self._not_as_granted: str | None = None
        self._status: BaseException | None = None
        self._pipes_closed = False
        self._clear = False
        self._quiet: IDelayedCall | None = None
        self._drain: IDelayedCall | None = None
        self._inits = 0
        self._retrying_since: datetime | None = None
        self._worked_at = clock.seconds()
        self._under_way: OneShot[None] = OneShot()
        self._ended: OneShot[TurnEnd] = OneShot()

    @property
    def init(self) -> Init | None:
        return self._stream.init

    @property
    def result(self) -> Result | None:
        return self._stream.result

    @property
    def retrying(self) -> Retrying | None:
        retry = self._stream.retrying
        return None if retry is None else Retrying(retry, self._retrying_since or self._now())

    @property
    def bytes_read(self) -> int:
        return self._stream.bytes_read + self._stderr.bytes_read

    @property
    def activity(self) -> dict[int, int]:
        return self._activity.slots

    # What claude's process does.

    def connectionMade(self) -> None:
        transport: IProcessTransport = self.transport  # type: ignore[assignment]
        self.pid = transport.pid
        self.last_event_at = self._clock.seconds()
        self._ladder = self._make_ladder(transport.pid, self._all_clear)
        transport.write(self.spec.prompt)
        transport.closeStdin()
        self._watch_silence()

    def outReceived(self, data: bytes) -> None:
        self.last_event_at = now = self._clock.seconds()
        self._activity.note(now, len(data))
        stream = self._stream
        said_last_word = self._said_last_word
        stream.feed(data)
        self._note_work(now)
        if stream.inits != self._inits:
            self._inits = stream.inits
            self._read_init()
        if self._said_last_word != said_last_word:
            self._watch_silence()

    def errReceived(self, data: bytes) -> None:
        self.last_event_at = now = self._clock.seconds()
        self._activity.note(now, len(data))
        self._stderr.feed(data)
        self._note_work(now)

    def _note_work(self, now: float) -> None:
        """Note when something came that is no wait for the API: only that is no silence to the idle timeout."""
        if self._stream.retrying is None:
            self._worked_at, self._retrying_since = now, None
        elif self._retrying_since is None:
            # Other events may have come with it, and after a stall of the daemon many.
            self._worked_at, self._retrying_since = now, self._now()

    def processExited(self, reason: Failure) -> None:
        self._exited()
        self._status = reason.value
        self.pid = None
        self._cancel_quiet()
        self._drain = self._clock.callLater(DRAIN_TICK_S, self._drained, self.bytes_read, DRAIN_TICKS, False)
        assert self._ladder is not None
        if self._ladder.begun:
            # At once, not after the drain: a rung that falls due meanwhile must not go to an id that is no longer ours.
            self._ladder.child_exited(sweep=True)

    def processEnded(self, reason: Failure) -> None:
        if self._drain is not None and self._drain.active():
            self._drain.cancel()
        self._pipes_closed = True
        self._stream.finish()
        assert self._ladder is not None
        if not self._ladder.begun:
            self._ladder.child_exited(sweep=self._judge().outcome is Outcome.KILLED)
        if self.open_requests > 0:
            self._clock.callLater(REQUEST_S, self._forget_requests)
        self._conclude()

    def _drained(self, seen: int, ticks: int, looked: bool) -> None:
        """Close the pipes that a grandchild still holds, once they have given what was in them."""
        if self.bytes_read != seen and ticks > 1:
            self._drain = self._clock.callLater(DRAIN_TICK_S, self._drained, self.bytes_read, ticks - 1, False)
        elif not looked:
            # After a stall a tick can fall due in the very turn of the reactor that saw the exit: have it read again.
            self._drain = self._clock.callLater(0, self._drained, self.bytes_read, ticks, True)
        else:
            let_go(self.transport)  # type: ignore[arg-type]

    def _all_clear(self) -> None:
        self._clear = True
        self._conclude()

    # What follows from what claude said.

    def _read_init(self) -> None:
        init = self._stream.init
        assert init is not None
        # One that is not listed at all is as good as failed; a list that is left out says nothing.
        status = None if init.mcp_servers is None else init.mcp_servers.get(CONTROL_SERVER, "failed")
        if status == "connected":
            self.control = Control.CONNECTED
        elif status == "failed" and self.control is not Control.CONNECTED:
            self.control = Control.FAILED
        if self._not_as_granted is None and self._stop_reason is None:
            self._not_as_granted = not_as_granted(init, tools=self.spec.tools, servers=self._servers)
            if self._not_as_granted is not None:
                self.stop(self._not_as_granted)
        self._under_way.fire(None)

    def _watch_silence(self) -> None:
        """Arm the one timer of this turn for whichever bound on silence applies: most have none until their result."""
        self._cancel_quiet()
        bound = self._silence_bound()
        ending = self._status is not None or (self._ladder is not None and self._ladder.begun)
        if bound is not None and not ending:
            left = max(0.0, self._silent_since() + bound - self._clock.seconds())
            self._quiet = self._clock.callLater(left, self._silent, False)

    def _silence_bound(self) -> float | None:
        bounds = [LINGER_S] if self._said_last_word else []
        if self.spec.options.idle_timeout_s is not None:
            bounds.append(self.spec.options.idle_timeout_s)
        return min(bounds, default=None)

    def _silent_since(self) -> float:
        """Since when nothing has come that counts: of a turn that has said its last word anything does."""
        return self.last_event_at or 0.0 if self._said_last_word else self._worked_at

    @property
    def _said_last_word(self) -> bool:
        """Whether the last thing asked is answered and nothing is left that could wake claude again."""
        return self._stream.answered and not self._stream.background_tasks

    def _silent(self, looked: bool) -> None:
        self._quiet = None
        bound = self._silence_bound()
        if bound is None:
            return
        if self._clock.seconds() - self._silent_since() < bound:
            self._watch_silence()
        elif not looked:
            # The daemon itself may have been stopped: let the reactor read the pipes once before the verdict.
            self._quiet = self._clock.callLater(DRAIN_TICK_S, self._silent, True)
        elif self._said_last_word:
            self._lingered = True
            self._lingered_result = self._stream.result  # what it writes under our signals does not count
            self._begin_ladder()
        else:
            waiting = ", while it waited for its API" if self._stream.retrying is not None else ""
            self.stop(f"silent for {bound:g} s, its idle_timeout_s{waiting}")

    def _cancel_quiet(self) -> None:
        if self._quiet is not None and self._quiet.active():
            self._quiet.cancel()
        self._quiet = None

    # What the layer above asks.

    def stop(self, reason: str) -> None:
        if self._status is None and self._stop_reason is None:
            self._stop_reason = reason
            self._begin_ladder()

    @property
    def escalated(self) -> bool:
        return self._ladder is not None and self._ladder.escalated

    @property
    def signals_sent(self) -> tuple[int, ...]:
        return tuple(self._ladder.sent) if self._ladder is not None else ()

    def _begin_ladder(self) -> None:
        assert self._ladder is not None
        self._cancel_quiet()
        self._ladder.begin()

    def when_under_way(self) -> Deferred[None]:
        return self._under_way.wait()

    def when_ended(self) -> Deferred[TurnEnd]:
        return self._ended.wait()

    # The end.

    def request_began(self) -> None:
        """Note a request by this turn's URL: what it says counts, although the exit be seen before it is through."""
        self.control = Control.CONNECTED
        self.open_requests += 1

    def request_ended(self) -> None:
        """Note that such a request is through."""
        self.open_requests = max(0, self.open_requests - 1)
        self._conclude()

    def _forget_requests(self) -> None:
        self.open_requests = 0
        self._conclude()

    def _judge(self) -> TurnEnd:
        try:
            return self._verdict()
        except Exception as error:  # a bug of ours: the process is gone all the same, and the run has to end
            self.log.failure("the end of a turn of {name} could not be judged", name=self.spec.name)
            return broken(error, self._now())

    def _verdict(self) -> TurnEnd:
        status = self._status
        assert status is not None and self._ladder is not None
        return judge(
            exit_code=getattr(status, "exitCode", None),
            signal=getattr(status, "signal", None),
            stream=self._stream,
            stderr_tail=self._stderr.text(),
            our_stop=self._stop_reason,
            last_sent_signal=self._ladder.sent[-1] if self._ladder.sent else None,
            lingered=self._lingered,
            lingered_result=self._lingered_result,
            not_as_granted=self._not_as_granted,
            survivors=self._ladder.survivors,
            left=self._ladder.remaining,
            ended_at=self._now(),
            redact=self._redact,
        )

    def _conclude(self) -> None:
        if not (self._pipes_closed and self._clear) or self.open_requests > 0 or self._ended.happened:
            return
        end = self._judge()
        self.last_event_at = None
        self._under_way.fire(None)
        self._ended.fire(end)
