"""Tests of `hivesub.tap`, but for what needs a process: those are in tests/integration/test_twistd.py."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from twisted.application.service import IServiceMaker, MultiService, Service
from twisted.internet.error import ReactorNotRunning
from twisted.plugin import getPlugins
from twisted.python import usage
from twisted.trial.unittest import SynchronousTestCase

import hivesub
from hivesub import __version__, tap
from hivesub.config.options import OPTIONS, variable_of
from hivesub.errors import ConfigError
from hivesub.tap import Options, choose_reactor, makeService, obey_signals


class FakeReactor:
    """Collects what it was asked to call; `run` calls it, as a reactor that has come up would."""

    def __init__(self) -> None:
        self.calls: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self.stops = 0

    def callWhenRunning(self, function: Callable[..., object], *args: Any) -> None:
        self.calls.append((function, args))

    callFromThread = callWhenRunning

    def stop(self) -> None:
        self.stops += 1
        if self.stops > 1:
            raise ReactorNotRunning

    def run(self) -> None:
        calls, self.calls = self.calls, []
        for function, args in calls:
            function(*args)


class TapTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor: Any = FakeReactor()
        self.base = Path(self.mktemp()).absolute()
        self.environ = {"HIVESUB_RUNTIME_DIR": str(self.base / "run"), "HIVESUB_STATE_DIR": str(self.base / "state")}

    def parsed(self, *argv: str) -> Options:
        options = Options(self.environ, self.reactor)
        options.parseOptions(argv)
        return options


class OptionsTests(TapTestCase):
    def test_the_command_line_and_the_environment_come_to_settings(self) -> None:
        settings = self.parsed("--port=0", "--todo", "http://a", "--todo=http://b").settings
        self.assertEqual(settings.listen, "tcp:port=0:interface=127.0.0.1")
        self.assertEqual(settings.todos, ("http://a", "http://b"))
        self.assertEqual(settings.state_dir, self.base / "state")

    def test_todos_of_one_command_line_are_not_seen_by_the_next(self) -> None:
        self.parsed("--todo=http://a")
        self.assertEqual(self.parsed("--todo=http://b").settings.todos, ("http://b",))

    def test_the_directories_are_there_afterwards(self) -> None:
        self.parsed()
        self.assertEqual(sorted(path.name for path in self.base.iterdir()), ["run", "state"])

    def test_what_cannot_be_used_ends_it_in_one_line_that_names_the_option(self) -> None:
        for argument, line in (
            ("--port=abc", "hivesub: --port: 'abc' is not a whole number from 0 to 65535"),
            ("--no-such-option", "hivesub: option --no-such-option not recognized"),
            ("stray", "hivesub: Wrong number of arguments."),
            ("--listen=tcp:port=x:interface=127.0.0.1", "hivesub: --listen: Twisted cannot use this endpoint ("),
            ("--listen=tcp:interface=127.0.0.1", "hivesub: --listen: Twisted cannot use this endpoint ("),
            ("--runtime-dir=/dev/null/x", "hivesub: --runtime-dir: /dev/null"),
        ):
            with self.subTest(argument=argument):
                code = self.assertRaises(SystemExit, self.parsed, argument).code
                assert isinstance(code, str)
                self.assertTrue(code.startswith(line), code)
                self.assertEqual(len(code.splitlines()), 1)

    def test_the_help_tells_of_every_option(self) -> None:
        text = str(self.parsed())
        for name, _ in OPTIONS:
            self.assertIn(f"--{name}=", text)
        self.assertIn(variable_of("max-running"), text)
        self.assertIn("several times", text)

    def test_the_version_is_hivesubs_own(self) -> None:
        said = io.StringIO()
        self.patch(sys, "stdout", said)
        self.assertEqual(self.assertRaises(SystemExit, self.parsed, "--version").code, 0)
        self.assertEqual(said.getvalue(), f"hivesub {__version__}\n")


class ReactorTests(SynchronousTestCase):
    def test_a_reactor_that_is_not_asyncios_is_refused_with_what_to_do(self) -> None:
        installed = FakeReactor()
        error = self.assertRaises(usage.UsageError, choose_reactor, {"twisted.internet.reactor": installed})
        self.assertIn("FakeReactor is installed: leave out --reactor", str(error))


class FakeCollector:
    """Stands for the garbage collector; keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def __getattr__(self, name: str) -> Callable[[], None]:
        return lambda: self.told.append(name)


class MakeServiceTests(TapTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.collector = FakeCollector()
        self.patch(tap, "gc", self.collector)
        self.patch(tap, "unblocked", lambda stream: stream)

    def built(self, build: Callable[..., object], *argv: str) -> object:
        """What makeService gives when `hivesub.service` has this `build`."""
        stub: Any = ModuleType("hivesub.service")
        stub.build = build
        with mock.patch.dict(sys.modules, {"hivesub.service": stub}), mock.patch.dict(vars(hivesub), service=stub):
            return makeService(self.parsed(*argv), self.reactor)

    def test_the_service_is_built_of_the_settings_and_the_reactor(self) -> None:
        service = Service()
        given: list[object] = []

        def build(*args: object) -> Service:
            given.extend(args)
            return service

        self.assertIs(self.built(build, "--max-running=3"), service)
        settings, reactor, refuse = given
        self.assertEqual(getattr(settings, "max_running", None), 3)
        self.assertIs(reactor, self.reactor)
        self.assertIs(refuse, SystemExit)

    def test_garbage_is_collected_once_it_runs_and_not_before_and_leaves_the_start_alone(self) -> None:
        self.patch(tap, "obey_signals", lambda *args: None)

        def build(*args: object) -> MultiService:
            self.collector.told.append("built")
            return MultiService()

        self.built(build)
        self.assertEqual(self.collector.told, ["disable", "built"])
        self.reactor.run()
        self.assertEqual(self.collector.told, ["disable", "built", "freeze", "enable"])

    def test_a_configuration_that_turns_out_unusable_ends_it_in_one_line(self) -> None:
        def build(*args: object) -> Service:
            raise ConfigError("--mcp-servers: not JSON")

        self.assertEqual(self.assertRaises(SystemExit, self.built, build).code, "hivesub: --mcp-servers: not JSON")

    def test_warnings_are_logged_once_it_runs(self) -> None:
        self.environ["HIVESUB_PROT"] = "1"
        self.patch(tap, "obey_signals", lambda *args: None)
        warned: list[str] = []
        self.patch(tap._log, "warn", lambda text, warning: warned.append(warning))
        self.built(lambda *args: MultiService())
        self.assertEqual(warned, [])
        self.reactor.run()
        self.assertEqual(warned, ["HIVESUB_PROT is set, but there is no such option"])


class SignalTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor: Any = FakeReactor()
        self.handlers: dict[int, Any] = {}
        self.patch(signal, "signal", self.handlers.__setitem__)
        self.ignored: set[int] = set()
        self.patch(signal, "getsignal", lambda n: signal.SIG_IGN if n in self.ignored else signal.SIG_DFL)

        self.reloads = 0

    def reload(self) -> None:
        self.reloads += 1

    def test_the_handler_leaves_the_stopping_to_the_reactor(self) -> None:
        obey_signals(self.reactor, self.reload, True)
        self.assertEqual(set(self.handlers), {signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
        for number, handler in self.handlers.items():
            self.reactor.stops = 0
            handler(number, None)
            self.assertEqual(self.reactor.stops, 0)
            self.reactor.run()
            self.assertEqual(self.reactor.stops, 1)
        self.assertEqual(self.reloads, 0)

    def test_without_a_terminal_sighup_reloads_and_stops_nothing(self) -> None:
        obey_signals(self.reactor, self.reload, False)
        self.handlers[signal.SIGHUP](signal.SIGHUP, None)
        self.assertEqual(self.reloads, 0)
        self.reactor.run()
        self.assertEqual((self.reloads, self.reactor.stops), (1, 0))

    def test_a_second_signal_changes_nothing(self) -> None:
        obey_signals(self.reactor, self.reload, True)
        for _ in range(2):
            self.handlers[signal.SIGTERM](signal.SIGTERM, None)
            self.reactor.run()
        self.assertEqual(self.reactor.stops, 2)

    def test_an_ignored_signal_stays_ignored(self) -> None:
        self.ignored = {signal.SIGHUP}
        obey_signals(self.reactor, self.reload, True)
        self.assertEqual(set(self.handlers), {signal.SIGTERM, signal.SIGINT})


class PluginTests(SynchronousTestCase):
    def test_twistd_finds_the_subcommand(self) -> None:
        found: list[Any] = [maker for maker in getPlugins(IServiceMaker) if maker.tapname == "hivesub"]
        self.assertEqual([maker.module for maker in found], ["hivesub.tap"])
