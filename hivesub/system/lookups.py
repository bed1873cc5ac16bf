"""Looks at paths that others name, off the reactor's thread and within a bound: a file system that hangs holds up the
one call that names it, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from attrs import frozen
from twisted.internet.defer import TimeoutError as DeferredTimeout
from twisted.internet.interfaces import IReactorTime

from hivesub.errors import Unanswered
from hivesub.system.appendfile import InThread

BOUND_S = 3.0

T = TypeVar("T")

Look = Callable[..., Coroutine[Any, Any, Any]]
"""Called with what an error calls the path, a blocking function, and its arguments; gives what the function gives.

:raises Unanswered: when the file system does not answer.
"""


@frozen
class Lookups:
    """A `Look` in threads."""

    _in_thread: InThread
    _clock: IReactorTime
    _bound_s: float = BOUND_S

    async def __call__(self, where: str, function: Callable[..., T], *args: object) -> T:
        try:
            found: T = await self._in_thread(function, *args).addTimeout(self._bound_s, self._clock)
        except DeferredTimeout:
            raise Unanswered(
                f"{where}: its file system has not answered within {self._bound_s:g} s: see that it is mounted and "
                "reachable, or name another place"
            ) from None
        except OSError as error:  # no thread to be had: as many are blocked as may be
            raise Unanswered(f"{where} cannot be looked at: {error}") from None
        return found


async def at_once(where: str, function: Callable[..., T], *args: object) -> T:
    """A `Look` on the spot, for where nothing can hang."""
    return function(*args)
