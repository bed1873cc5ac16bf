"""Blocking calls off the reactor's thread, one at a time and in order; those that wait meanwhile share a thread.

A thread, and a turn of the reactor that hears of its end, for each call would be most of what a todo costs: 11 of 15 ms
while ninety runs end a second, and todos would pile up to their bound before a sink that answers (measured,
`python -m bench.soak`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from hivesub.system.appendfile import InThread

AT_ONCE = 100
"""The most calls that share a thread: the results of all arrive when the last is done."""


@define(eq=False)
class _Call:
    function: Callable[..., Any]
    args: tuple[object, ...]
    done: Deferred[Any] = field(init=False)


@define(eq=False)
class InOrder:
    """An `InThread` that makes no call before those before it are done. Cancelling one that waits takes it back."""

    _in_thread: InThread
    _waiting: list[_Call] = field(init=False, factory=list)
    _busy: bool = field(init=False, default=False)

    def __call__(self, function: Callable[..., Any], *args: object) -> Deferred[Any]:
        call = _Call(function, args)
        call.done = Deferred(lambda _: self._take_back(call))
        self._waiting.append(call)
        self._go_on()
        return call.done

    def _take_back(self, call: _Call) -> None:
        if call in self._waiting:
            self._waiting.remove(call)

    def _go_on(self) -> None:
        if self._busy or not self._waiting:
            return
        self._busy = True
        calls, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
        if len(calls) == 1:
            made = self._in_thread(calls[0].function, *calls[0].args).addBoth(lambda outcome: [outcome])
        else:
            made = self._in_thread(_make, calls)
        made.addBoth(self._made, calls)

    def _made(self, outcomes: Sequence[Any] | Failure, calls: Sequence[_Call]) -> None:
        # A failure in their place: there was no thread to be had.
        each = [outcomes] * len(calls) if isinstance(outcomes, Failure) else outcomes
        for call, outcome in zip(calls, each, strict=True):
            # What follows from it at once waits for its turn with the rest.
            if call.done.called:
                continue  # cancelled too late to take it back
            if isinstance(outcome, Failure):
                call.done.errback(outcome)
            else:
                call.done.callback(outcome)
        self._busy = False
        self._go_on()


def _make(calls: Sequence[_Call]) -> list[Any]:
    """In the thread: what each gave, or the Failure of what it raised."""
    outcomes: list[Any] = []
    for call in calls:
        try:
            outcomes.append(call.function(*call.args))
        except Exception:
            outcomes.append(Failure())
    return outcomes
