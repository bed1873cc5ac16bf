"""Liveness: silence alone kills nothing, and neither a stepped wall clock nor a stopped daemon makes a false age."""

from __future__ import annotations

import os
import signal
from datetime import timedelta

from twisted.internet.defer import Deferred

from tests.faults.clocked import INIT, RESULT, ClockedCase
from tests.support.agent import pause
from tests.support.world import World, together, until


class OnAClock(ClockedCase):
    def test_20_minutes_of_silence_and_then_success_is_finished(self) -> None:
        child = self.start()
        child.out(INIT)
        for minute in range(1, 21):
            self.pass_s(60)
            record = self.record()
            self.assertEqual((record["state"], record["last_event_age_s"]), ("running", 60 * minute))
        child.out(RESULT)
        child.exit()
        self.assertEqual((self.record()["last_turn"]["outcome"], self.kin.sent), ("finished", []))

    def test_a_wall_clock_that_is_set_back_or_ahead_an_hour_gives_no_false_age_and_kills_nothing(self) -> None:
        child = self.start(idle_timeout_s=30)
        child.out(INIT)
        self.pass_s(10)
        for step in (timedelta(hours=-1), timedelta(hours=1)):
            self.wall = step
            self.assertEqual(self.record()["last_event_age_s"], 10)
        self.wall = timedelta(hours=-1)
        self.pass_s(19)
        child.out(RESULT)
        child.exit()
        record = self.record()
        self.assertEqual((record["last_turn"]["outcome"], self.kin.sent), ("finished", []))

    def test_a_daemon_that_was_stopped_for_a_minute_reads_what_was_written_before_it_judges(self) -> None:
        child = self.start(idle_timeout_s=30)
        child.out(INIT)
        self.reactor.advance(60)  # all at once, as the timers see it after SIGCONT: what was written is not read yet
        self.assertEqual(self.kin.sent, [])
        child.out(b"chatter\n")
        self.reactor.advance(1)
        self.assertEqual((self.record()["state"], self.record()["last_event_age_s"]), ("running", 1))
        child.out(RESULT)
        child.exit()
        self.assertEqual((self.record()["last_turn"]["outcome"], self.kin.sent), ("finished", []))


async def test_a_daemon_stopped_for_longer_than_the_idle_timeout_kills_no_turn_that_wrote_meanwhile(
    own: World,
) -> None:
    ready = own.dir / "ready"
    # 20 lines a second for 4 s: never silent for the second that is allowed, and at it when the daemon goes on.
    await own.start("alpha", f"write {ready} it", "flood 80 500 20", "text done", idle_timeout_s=1)
    await until(ready.exists)
    os.kill(own.daemon.pid, signal.SIGSTOP)
    try:
        asked = Deferred.fromCoroutine(together(*(own.agent.record("alpha") for _ in range(3))))
        await pause(2.0, own.agent._reactor)
        assert not asked.called
    finally:
        os.kill(own.daemon.pid, signal.SIGCONT)
    for seen in await asked:
        assert seen["state"] == "running"
        assert seen["last_event_age_s"] < 1
    record = await own.agent.ended("alpha")
    assert (record["state"], record["last_turn"]["outcome"]) == ("idle", "finished"), record


async def test_a_turn_that_is_silent_for_longer_than_the_idle_timeout_is_interrupted(shared: World, name: str) -> None:
    record = await shared.run(name, "text thinking", "hang", idle_timeout_s=1)
    assert (record["state"], record["last_turn"]["signal"]) == ("killed", "SIGINT")
    assert "silent for 1 s" in record["last_turn"]["detail"]
