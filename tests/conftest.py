"""What holds for every test: no failure that was logged, and no Deferred or task dropped with one, passes unseen.

No import here may bring in Klein or the reactor: pytest-twisted installs the reactor, and Klein another one.
"""

from __future__ import annotations

import gc
import logging
import signal
from collections.abc import Iterator
from typing import cast

import pytest
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

# What a shell starts in the background ignores the one, what nohup starts the other, and so would every program that a
# test starts and signals.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class LoggedFailures(logging.Handler):
    """The failures logged while one test ran, to Twisted or by asyncio, those of dropped Deferreds included."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._seen: list[tuple[str, Failure | None]] = []

    def __call__(self, event: LogEvent) -> None:
        # The older log.err() leaves the failure under its own key.
        failure = event.get("log_failure") or event.get("failure")
        if failure is not None:
            self._seen.append((formatEvent(event), failure))

    def emit(self, record: logging.LogRecord) -> None:
        """Of asyncio: a task's exception that nobody took, a callback that raised."""
        error = record.exc_info[1] if record.exc_info else None
        self._seen.append((record.getMessage(), None if error is None else Failure(error)))

    def flush_failures(self, *types: type[BaseException]) -> list[Failure]:
        """Give and forget the failures of these exception types, of any where none is named: the test expected them."""
        gc.collect()
        expected = [
            failure for _, failure in self._seen if failure is not None and (not types or failure.check(*types))
        ]
        self._seen = [(text, failure) for text, failure in self._seen if failure not in expected]
        return expected

    def told(self) -> str:
        return "\n".join(f"{text}\n{failure.getTraceback() if failure else ''}" for text, failure in self._seen)

    def forget(self) -> None:
        self._seen.clear()


@pytest.fixture(scope="session", autouse=True)
def _quick_collections() -> None:
    """Put aside what is loaded already, so that the collection after each test looks at that test's objects only."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _scratch_directory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trial's `mktemp` makes its directories in the current one: let that be pytest's own, for trial's classes."""
    if request.cls is not None and issubclass(request.cls, SynchronousTestCase):
        monkeypatch.chdir(request.getfixturevalue("tmp_path"))


@pytest.fixture(autouse=True)
def logged_failures(request: pytest.FixtureRequest) -> Iterator[LoggedFailures]:
    """Fails the test for each failure logged that it did not take by `flush_failures`."""
    logged = LoggedFailures()
    globalLogPublisher.addObserver(cast(ILogObserver, logged))
    logging.getLogger("asyncio").addHandler(logged)
    try:
        yield logged
        if request.cls is not None and issubclass(request.cls, SynchronousTestCase):
            # Trial has looked at what was logged in such a test, and lets it flush by its own method.
            logged.forget()
            gc.collect()
            # What it leaves is what the runner keeps of it: not to be looked through again after each later test.
            gc.freeze()
        else:
            gc.collect()
    finally:
        globalLogPublisher.removeObserver(cast(ILogObserver, logged))
        logging.getLogger("asyncio").removeHandler(logged)
    if logged.told():
        pytest.fail(f"logged, and not expected by the test:\n{logged.told()}", pytrace=False)
