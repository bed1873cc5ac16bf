"""What `start` means: admission, the answer, and calls that are repeated."""

from __future__ import annotations

import gc
import weakref

from twisted.internet.defer import CancelledError
from zope.interface.verify import verifyObject

from hivesub.errors import AlreadyRunning, BadRequest, RequestKeyReused, SpawnError, TooManyRunning, UnknownName
from hivesub.interfaces import IFleet
from hivesub.records import Outcome, StartRequest
from tests.support.runfakes import TOOLS, FleetCase, init, session


class AStart(FleetCase):
    def test_the_fleet_provides_its_interface(self) -> None:
        verifyObject(IFleet, self.fleet)

    def test_it_is_answered_the_instant_the_process_exists(self) -> None:
        self.source.hold = True
        answer = self.starting()
        self.assertNoResult(answer)
        self.source.release()
        told = self.successResultOf(answer)
        self.assertEqual(set(told), {"subagent"})
        self.assertEqual((told["subagent"]["state"], told["subagent"]["pid"]), ("running", self.turn.pid))
        self.assertIsNone(self.turn.init)

    def test_the_turn_is_what_was_asked_for(self) -> None:
        self.start(prompt="do é", model="opus", effort="high", idle_timeout_s=60.0, max_budget_usd=0.5)
        spec = self.turn.spec
        self.assertEqual((spec.name, spec.prompt, spec.dir, spec.tools), ("alpha", "do é".encode(), self.dir, TOOLS))
        self.assertEqual((spec.session_id, spec.resume), (session(1), None))
        self.assertEqual((spec.options.model, spec.options.effort, spec.options.idle_timeout_s), ("opus", "high", 60.0))
        self.assertEqual(spec.options.max_budget_usd, 0.5)

    def test_a_name_whose_run_goes_on_is_refused_with_its_state(self) -> None:
        self.start()
        self.clock.advance(3)
        error = self.refused(self.starting(), AlreadyRunning)
        self.assertIn("alpha is running (turn 1, last event 3 s ago)", error)
        self.assertEqual(len(self.source.turns), 1)

    def test_a_name_that_is_being_spawned_is_refused_too(self) -> None:
        self.source.hold = True
        first = self.starting()
        self.refused(self.starting(), AlreadyRunning)
        self.source.release()
        self.successResultOf(first)

    def test_a_name_between_two_turns_is_refused_too(self) -> None:
        self.start(goal="g")
        self.source.hold = True
        self.end()
        self.refused(self.starting(), AlreadyRunning)
        self.refused(self.continuing(), AlreadyRunning)

    def test_a_name_of_an_ended_run_starts_a_new_session_and_names_the_old_one(self) -> None:
        self.ended_run()
        told = self.start()
        self.assertEqual(told["replaced_session_id"], session(1))
        self.assertEqual(told["subagent"]["session_id"], session(2))
        self.assertIsNone(self.turn.spec.resume)

    def test_the_session_that_is_replaced_is_the_one_that_init_named(self) -> None:
        self.start()
        self.end(init=init(session_id=session(77)))
        self.assertEqual(self.start()["replaced_session_id"], session(77))

    def test_no_session_id_is_used_twice_even_when_the_first_start_was_killed_at_once(self) -> None:
        self.start()
        self.end(Outcome.KILLED, under_way=False)
        self.start()
        ids = [turn.spec.session_id for turn in self.source.turns]
        self.assertEqual(ids, [session(1), session(2)])

    def test_a_dir_that_cannot_be_is_refused_and_nothing_has_changed(self) -> None:
        (self.dir / "file").touch()
        for text in ("relative", str(self.dir / "gone"), str(self.dir / "file")):
            self.assertIn("dir: ", self.refused(self.starting(dir=text), BadRequest))
        self.assertEqual((self.fleet.running, self.source.turns), (0, []))
        self.failureResultOf(self.fleet.status("alpha", wait_s=0.0, wait_for_all=False, result=False), UnknownName)

    def test_a_process_that_cannot_be_made_leaves_the_name_as_it_was(self) -> None:
        self.source.error = SpawnError("claude is not on PATH")
        self.assertEqual(self.refused(self.starting(), SpawnError), "claude is not on PATH")
        self.failureResultOf(self.fleet.status("alpha", wait_s=0.0, wait_for_all=False, result=False), UnknownName)
        self.ended_run()
        before = self.record()
        self.source.error = SpawnError("claude is not on PATH")
        self.refused(self.starting(), SpawnError)
        self.assertEqual((self.record(), self.fleet.running, len(self.outbox.todos)), (before, 0, 1))

    def test_one_that_is_interrupted_before_its_process_exists_fails_and_leaves_no_name(self) -> None:
        self.source.hold = True
        starting = self.starting()
        interrupted = self.successResultOf(self.fleet.interrupt("alpha"))
        self.assertEqual(interrupted["subagent"]["state"], "killed")
        self.failureResultOf(starting)
        self.source.release()
        self.assertEqual((self.source.turns, self.outbox.todos, self.fleet.running), ([], [], 0))

    def test_a_caller_who_gives_up_leaves_a_run_that_is_visible_and_told(self) -> None:
        self.source.hold = True
        starting = self.starting()
        starting.cancel()
        self.failureResultOf(starting, CancelledError)
        self.assertEqual(self.record()["state"], "running")
        self.source.release()
        self.assertEqual(self.record()["pid"], self.turn.pid)
        self.end()
        self.assertEqual(len(self.outbox.todos), 1)


class TheCap(FleetCase):
    max_running = 16

    def test_of_twenty_starts_sixteen_run_and_four_are_refused_with_what_to_do(self) -> None:
        self.source.hold = True
        answers = [self.starting(f"n{number}") for number in range(20)]
        for answer in answers[16:]:
            error = self.refused(answer, TooManyRunning)
            self.assertIn("--max-running", error)
            self.assertIn("interrupt", error)
        self.source.release()
        for answer in answers[:16]:
            self.successResultOf(answer)
        self.assertEqual((self.fleet.running, len(self.source.turns)), (16, 16))
        self.failureResultOf(self.fleet.status("n16", wait_s=0.0, wait_for_all=False, result=False), UnknownName)

    def test_continue_is_refused_past_it_too_and_an_end_makes_room(self) -> None:
        for number in range(16):
            self.start(f"n{number}")
        self.refused(self.continuing("other"), TooManyRunning)
        self.end()
        self.start("other")
        self.assertEqual(self.fleet.running, 16)


class TheRequestKey(FleetCase):
    def test_a_twin_in_flight_joins(self) -> None:
        self.source.hold = True
        twins = [self.starting(request_key="k"), self.starting(request_key="k")]
        self.source.release()
        first, second = map(self.successResultOf, twins)
        self.assertEqual(first, second)
        self.assertEqual(len(self.source.turns), 1)

    def test_a_retry_is_answered_with_the_run_it_made_whatever_became_of_it(self) -> None:
        self.start(request_key="k")
        self.assertEqual(self.start(request_key="k")["subagent"]["state"], "running")
        self.end()
        self.assertEqual(self.start(request_key="k")["subagent"]["state"], "idle")
        self.assertEqual(len(self.source.turns), 1)

    def test_a_retry_tells_which_session_was_replaced_as_the_lost_answer_did(self) -> None:
        self.ended_run()
        first = self.start(request_key="k")
        self.assertEqual(self.start(request_key="k"), first)
        self.assertEqual(first["replaced_session_id"], session(1))

    def test_a_retry_finds_its_own_run_when_the_name_has_run_again_since(self) -> None:
        first = self.start(request_key="k")["subagent"]["session_id"]
        self.end()
        self.resume()
        self.end()
        self.start()
        self.assertEqual(self.start(request_key="k")["subagent"]["session_id"], first)
        self.assertEqual(len(self.source.turns), 3)

    def test_the_same_key_with_other_arguments_is_refused(self) -> None:
        self.start(request_key="k")
        self.refused(self.starting(prompt="other", request_key="k"), RequestKeyReused)
        self.refused(self.starting(goal="g", request_key="k"), RequestKeyReused)
        self.assertEqual(len(self.source.turns), 1)

    def test_what_a_call_asked_for_is_not_kept_with_its_key(self) -> None:
        request = StartRequest(name="alpha", prompt="x" * 1000, request_key="k")
        kept = weakref.ref(request)
        self.successResultOf(self.fleet.start(request))
        self.end()
        del request
        gc.collect()
        self.assertIsNone(kept())

    def test_it_is_per_tool_and_per_name(self) -> None:
        self.ended_run(request_key="k")
        self.resume(request_key="k")
        self.start("beta", request_key="k")
        self.assertEqual(len(self.source.turns), 3)

    def test_a_call_that_failed_is_not_kept(self) -> None:
        self.source.error = SpawnError("no")
        self.refused(self.starting(request_key="k"), SpawnError)
        self.start(prompt="other", request_key="k")
        self.assertEqual(len(self.source.turns), 1)

    def test_a_retry_after_its_caller_gave_up_finds_the_run_it_made(self) -> None:
        self.source.hold = True
        lost = self.starting(request_key="k")
        lost.cancel()
        self.failureResultOf(lost, CancelledError)
        retry = self.starting(request_key="k")
        self.assertNoResult(retry)
        self.source.release()
        self.assertEqual(self.successResultOf(retry)["subagent"]["pid"], self.turn.pid)
        self.assertEqual(len(self.source.turns), 1)

    def test_a_retry_after_its_caller_gave_up_is_told_that_no_process_came_about(self) -> None:
        self.source.hold = True
        lost = self.starting(request_key="k")
        lost.cancel()
        self.failureResultOf(lost, CancelledError)
        retry = self.starting(request_key="k")
        self.source._held[0][0].errback(SpawnError("out of descriptors"))
        self.assertEqual(self.refused(retry, SpawnError), "out of descriptors")

    def test_only_so_many_are_kept_the_oldest_goes_first(self) -> None:
        self.ended_run(request_key="k0")
        for number in range(1, 21):
            self.start(request_key=f"k{number}")
            self.end()
        self.start(request_key="k1")
        self.assertEqual(len(self.source.turns), 21)
        self.start(request_key="k0")
        self.assertEqual(len(self.source.turns), 22)
