"""What twistd loads for the subcommand `hivesub`: its options, and the service made of them.

The only place that knows the global reactor, and the one that chooses it. It must not import Klein, nor anything that
does, before the reactor is chosen: `import klein` installs the default one.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, ModuleType
from typing import Any, cast

from twisted.application.service import IService
from twisted.internet.endpoints import serverFromString
from twisted.internet.error import ReactorNotRunning
from twisted.internet.interfaces import IReactorCore, IReactorFromThreads
from twisted.logger import Logger
from twisted.python import usage

from hivesub import __version__
from hivesub.config.options import OPTIONS, OptionError, Settings, make_directories, read_settings
from hivesub.errors import ConfigError
from hivesub.system.logstream import unblocked

_log = Logger()

STOP_SIGNALS = ("SIGTERM", "SIGINT")
"""What stops the daemon cleanly, besides the closing of its terminal."""


class IDaemonReactor(IReactorCore, IReactorFromThreads):
    """What this module needs of a reactor."""


class Options(usage.Options):
    """The command line of `twistd hivesub`; once parsed, `settings` is what it and the environment came to.

    Where no reactor is passed in, parsing chooses the asyncio one for the whole process.
    """

    synopsis = "[options]"
    longdesc = (
        "Run, watch, resume and stop named headless Claude Code sessions for one MCP client. Every option can be given "
        "in the environment too, as HIVESUB_ and its name in capitals with underscores (--max-running is "
        "HIVESUB_MAX_RUNNING; HIVESUB_TODO may name several, separated by spaces); the command line wins."
    )
    optParameters: Sequence[Sequence[Any]] = [[name, None, None, text] for name, text in OPTIONS if name != "todo"]

    settings: Settings

    def __init__(self, environ: Mapping[str, str] | None = None, reactor: IDaemonReactor | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._environ = os.environ if environ is None else environ
        self._reactor = reactor
        self["todo"] = ()

    def opt_todo(self, sink: str) -> None:
        self["todo"] = (*self["todo"], sink)

    opt_todo.__doc__ = dict(OPTIONS)["todo"]

    def opt_version(self) -> None:
        """Show the version of hivesub and exit."""
        print(f"hivesub {__version__}")
        raise SystemExit(0)

    def parseOptions(self, options: Sequence[str] | None = None) -> None:
        """Parse, and check all that can be checked without listening.

        :raises SystemExit: with one line on stderr and status 1; twistd itself would print all of its help before it.
        """
        try:
            if self._reactor is None:
                self._reactor = choose_reactor(sys.modules)
            super().parseOptions(options)  # type: ignore[no-untyped-call]
        except usage.UsageError as error:
            raise SystemExit(f"hivesub: {error}") from None

    def postOptions(self) -> None:
        """:raises usage.UsageError: its text names the option."""
        try:
            self.settings = read_settings(self, self._environ)
            self._check_endpoint()
            make_directories(self.settings)
        except ConfigError as error:
            raise usage.UsageError(str(error)) from None

    def _check_endpoint(self) -> None:
        try:
            serverFromString(self._reactor, self.settings.listen)
        except Exception as error:
            # An endpoint parser, which a plugin may bring, raises whatever it likes: ValueError, KeyError, TypeError.
            raise OptionError(
                "listen", f"Twisted cannot use this endpoint ({error}); e.g. tcp:port=8787:interface=127.0.0.1 works"
            ) from None


def choose_reactor(modules: Mapping[str, ModuleType | object]) -> IDaemonReactor:
    """Install the asyncio reactor, which the MCP SDK needs, or take it where it is the one installed already; its
    clock is a monotonic one from then on.

    `modules` is `sys.modules`, in which an installed reactor stands.
    :raises usage.UsageError: where another one is installed.
    """
    from twisted.internet import asyncioreactor

    if "twisted.internet.reactor" not in modules:
        asyncioreactor.install()
    reactor: object = modules["twisted.internet.reactor"]
    if not isinstance(reactor, asyncioreactor.AsyncioSelectorReactor):
        raise usage.UsageError(
            f"only the asyncio reactor will do, and {type(reactor).__name__} is installed: leave out --reactor or give "
            "--reactor=asyncio"
        )
    if not reactor.getDelayedCalls():  # none is there before twistd runs it; those that are count by the old clock
        # Twisted's own is the wall clock (measured, 26.10): set ahead it would fire every timer at once, set back it
        # would hold them all, and either makes a false age of the last event.
        reactor.seconds = time.monotonic
    return cast(IDaemonReactor, reactor)


def makeService(options: Options, reactor: IDaemonReactor | None = None) -> IService:
    """The daemon as a service; starting it opens the port, and SIGTERM ends the process with status 0.

    :raises SystemExit: with one line, where what the options name cannot be used after all.
    """
    if reactor is None:
        reactor = choose_reactor(sys.modules)
    # Before twistd makes its log of it. What writes to stderr later, a traceback too, goes into that log.
    sys.stdout = unblocked(sys.stdout)
    gc.disable()
    reactor.callWhenRunning(collect_from_now_on)
    # Only here: what this imports may import Klein.
    from hivesub import service

    settings = options.settings
    try:
        built = service.build(settings, reactor, SystemExit if _in_foreground(options) else ConfigError)
    except ConfigError as error:
        raise SystemExit(f"hivesub: {error}") from None
    reactor.callWhenRunning(_warn, settings)
    reactor.callWhenRunning(obey_signals, reactor, lambda: built.reload(), has_terminal())
    return built


def _in_foreground(options: Options) -> bool:
    """Whether twistd keeps the terminal (`-n`). Where it does not, its parent process waits for a word of the child's,
    which twistd gives at an exception and not at a SystemExit; without it the command line would hang.
    """
    parent = getattr(options, "parent", None)
    return parent is None or bool(parent["nodaemon"])


def collect_from_now_on() -> None:
    """Begin to collect garbage, and leave out what is there already.

    What a start makes lives as long as the daemon: looking through it takes a tenth of the start, and each full
    collection of it would hold up every answer (63 ms, measured). To be called once the daemon listens.
    """
    gc.freeze()
    gc.enable()


def has_terminal() -> bool:
    """Whether this process has a controlling terminal, whose closing comes as SIGHUP."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def obey_signals(reactor: IDaemonReactor, reload: Callable[[], None], terminal: bool) -> None:
    """Let each of `STOP_SIGNALS` stop the reactor, and with it the services; the process then exits with status 0.

    SIGHUP does so too where there is a terminal that it may come from; where there is none, as under a service manager,
    it reloads.

    To be called once the reactor runs: on its way up it installs handlers of its own, with which twistd would end by
    raising the signal again. A signal that is ignored stays ignored (`nohup`, a shell's background job).
    """

    def stop(name: str) -> None:
        _log.info("{name}: stopping", name=name)
        try:
            reactor.stop()
        except ReactorNotRunning:
            pass  # A second signal: it is stopping already, and the service bounds how long that takes.

    def ask_to_stop(number: int, frame: FrameType | None) -> None:
        # In a signal handler only this is safe.
        reactor.callFromThread(stop, signal.Signals(number).name)

    def ask_to_reload(number: int, frame: FrameType | None) -> None:
        reactor.callFromThread(reload)

    handlers = dict.fromkeys(STOP_SIGNALS, ask_to_stop)
    handlers["SIGHUP"] = ask_to_stop if terminal else ask_to_reload
    for name, handler in handlers.items():
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _warn(settings: Settings) -> None:
    for warning in settings.warnings:
        _log.warn("{warning}", warning=warning)
