"""From a call to the plan of its run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hivesub.errors import BadRequest
from hivesub.records import ContinueRequest, StartRequest, StopKind, StopReason, TurnOptions
from hivesub.runs.plan import find_dir, plan_continue, plan_start
from hivesub.runs.run import Run
from tests.support.options import grouped
from tests.support.runfakes import NOW, TOOLS, session, turn_end, used

HOME = Path("/srv/work")


def earlier_run(kind: StopKind | None = StopKind.TURN_CAP, **fields: Any) -> Run:
    """A run of the name that has ended, with everything that can carry over."""
    plan: dict[str, Any] = {
        "goal": "all tests pass",
        "max_turns": 7,
        "report_file": "/srv/old/r.md",
        "model": "opus",
        "effort": "high",
        "max_budget_usd": 0.5,
        "idle_timeout_s": 60.0,
        "session_id": session(1),
        "dir": Path("/srv/old"),
    }
    run = Run(name="alpha", prompt="p", tools=TOOLS, started_at=NOW, **grouped({**plan, **fields}))
    run.stop_reason = None if kind is None else StopReason(kind=kind, message="")
    run.last_turn = turn_end()
    return run


def found(request: StartRequest | ContinueRequest) -> Path | None:
    return None if request.dir is None else find_dir(request.dir)


def continued(earlier: Run | None, **fields: Any) -> Run:
    request = ContinueRequest(name="alpha", prompt="go on", **grouped(fields))
    return plan_continue(request, found(request), earlier, default_dir=HOME, tools=TOOLS, now=NOW)


def started(**fields: Any) -> Run:
    request = StartRequest(name="alpha", prompt="p", **grouped(fields))
    return plan_start(request, found(request), default_dir=HOME, tools=TOOLS, session_id=session(1), now=NOW)


class TheDirectory(SynchronousTestCase):
    def setUp(self) -> None:
        self.base = Path(self.mktemp()).resolve()
        (self.base / "in").mkdir(parents=True)
        (self.base / "file").touch()

    def test_an_absolute_one_that_is_there_is_taken(self) -> None:
        self.assertEqual(find_dir(str(self.base / "in")), self.base / "in")

    def test_a_tilde_is_the_home_directory(self) -> None:
        self.patch(os, "environ", {**os.environ, "HOME": str(self.base)})
        self.assertEqual(find_dir("~/in"), self.base / "in")

    def test_others_are_refused_by_field_and_path(self) -> None:
        for text, why in (
            ("in", "is not absolute"),
            ("./in", "is not absolute"),
            ("~nobody-of-this-name/in", "is not absolute"),
            (str(self.base / "gone"), "does not exist"),
            (str(self.base / "file"), "is no directory"),
            (str(self.base / "file" / "in"), "does not exist"),
            (str(self.base / ("x" * 300)), "cannot be looked at"),
            ("/a\0b", "does not exist"),
        ):
            error = str(self.assertRaises(BadRequest, find_dir, text))
            self.assertTrue(error.startswith(f"dir: {text!r} "), error)
            self.assertIn(why, error)


class AStart(SynchronousTestCase):
    def test_without_a_goal_it_has_no_budget_of_turns(self) -> None:
        run = started()
        self.assertEqual((run.goal, run.max_turns, run.dir, run.resume), (None, None, HOME, None))
        self.assertEqual((run.session_id, run.session_cost), (session(1), 0.0))

    def test_a_goal_alone_gets_five_turns(self) -> None:
        self.assertEqual(started(goal="g").max_turns, 5)
        self.assertEqual(started(goal="g", max_turns=9).max_turns, 9)

    def test_a_relative_report_is_relative_to_its_dir(self) -> None:
        self.assertEqual(started(report_file="r.md").report_file, "/srv/work/r.md")
        base = self.mktemp()
        os.mkdir(base)
        given = os.path.abspath(base)
        self.assertEqual(started(report_file="r.md", dir=given).report_file, f"{given}/r.md")


class WhatAContinueResumes(SynchronousTestCase):
    def test_a_session_id_that_is_given_comes_first(self) -> None:
        run = continued(earlier_run(), session_id=session(8))
        self.assertEqual((run.resume, run.session_id, run.session_cost), (session(8), session(8), None))

    def test_then_the_one_that_is_remembered(self) -> None:
        run = continued(earlier_run())
        self.assertEqual((run.resume, run.session_id), (session(1), session(1)))

    def test_else_the_name_as_a_title(self) -> None:
        for earlier in (None, earlier_run(session_id=None)):
            run = continued(earlier)
            self.assertEqual((run.resume, run.session_id, run.session_cost), ("alpha", None, None))

    def test_it_happens_in_the_dir_given_else_the_remembered_else_the_daemons(self) -> None:
        given = os.path.abspath(self.mktemp())
        os.mkdir(given)
        self.assertEqual(continued(earlier_run(), dir=given).dir, Path(given))
        self.assertEqual(continued(earlier_run()).dir, Path("/srv/old"))
        self.assertEqual(continued(None).dir, HOME)

    def test_a_dir_that_is_not_there_is_refused(self) -> None:
        self.assertRaises(BadRequest, continued, earlier_run(), dir="/nowhere/at/all")

    def test_the_cost_of_the_session_so_far_is_its_baseline(self) -> None:
        earlier = earlier_run()
        earlier.session_cost = 0.25
        self.assertEqual(continued(earlier).session_cost, 0.25)
        self.assertEqual(continued(earlier, session_id=session(1)).session_cost, 0.25)


def used_by(cost: float) -> Any:
    run = earlier_run()
    run.turn = None
    run._count(used(cost))
    return run.usage


class WhatCarriesOver(SynchronousTestCase):
    def test_the_goal_is_kept_a_claimed_one_too_with_a_fresh_budget_of_the_same_size(self) -> None:
        for kind in set(StopKind) - {StopKind.CHECK_PASSED}:
            run = continued(earlier_run(kind))
            self.assertEqual((run.goal, run.max_turns, run.turn_number), ("all tests pass", 7, 1), kind)

    def test_an_empty_goal_makes_it_a_single_turn(self) -> None:
        run = continued(earlier_run(StopKind.NEED_HELP), goal="")
        self.assertEqual((run.goal, run.max_turns), (None, None))

    def test_a_new_goal_or_budget_replaces_the_old_one(self) -> None:
        run = continued(earlier_run(), goal="more")
        self.assertEqual((run.goal, run.max_turns), ("more", 7))
        run = continued(earlier_run(), max_turns=2)
        self.assertEqual((run.goal, run.max_turns), ("all tests pass", 2))
        self.assertEqual(continued(None, goal="more").max_turns, 5)

    def test_a_budget_of_turns_without_any_goal_is_refused(self) -> None:
        for earlier in (None, earlier_run(goal=None, max_turns=None)):
            error = self.assertRaises(BadRequest, continued, earlier, max_turns=3)
            self.assertTrue(str(error).startswith("max_turns: "))
        self.assertRaises(BadRequest, continued, earlier_run(), goal="", max_turns=3)

    def test_report_model_effort_timeout_and_money_carry_over(self) -> None:
        for kind in (StopKind.TURN_CAP, StopKind.GOAL_REACHED):
            run = continued(earlier_run(kind))
            self.assertEqual((run.report_file, run.options), ("/srv/old/r.md", earlier_run().options))

    def test_each_of_them_can_be_given_anew(self) -> None:
        new: dict[str, Any] = {"model": "haiku", "effort": "low", "idle_timeout_s": 5.0, "max_budget_usd": 2.0}
        run = continued(earlier_run(), report_file="new.md", **new)
        self.assertEqual(run.options, TurnOptions(**new))
        self.assertEqual(run.report_file, "/srv/old/new.md")

    def test_the_settings_have_to_be_as_they_were_unless_directory_or_session_is_named(self) -> None:
        seen = {"/srv/old/.mcp.json": {"a": "1"}}
        earlier = earlier_run(settings_seen=seen)
        self.assertEqual(continued(earlier).settings_seen, seen)
        self.assertIsNone(continued(earlier, session_id=session(1)).settings_seen)
        self.assertIsNone(continued(earlier, dir="/").settings_seen)
        self.assertIsNone(continued(None).settings_seen)

    def test_a_path_that_a_subagent_had_named_stays_bound_to_its_dir(self) -> None:
        earlier = earlier_run(report_within="/srv/old")
        self.assertEqual(continued(earlier).report_within, "/srv/old")
        self.assertIsNone(continued(earlier, report_file="mine.md").report_within)

    def test_what_happened_in_the_earlier_run_does_not_carry_over(self) -> None:
        earlier = earlier_run(report_error="disk full", escalated=True)
        earlier.session_cost = 0.25
        run = continued(earlier)
        self.assertEqual((run.report_error, run.escalated, run.signals, run.last_turn), (None, False, [], None))
        self.assertIsNone(run.usage.cost_usd)


class TheCheck(SynchronousTestCase):
    CHECKS = ("tests", "lint")

    def start(self, **fields: Any) -> Run:
        request = StartRequest(name="alpha", prompt="p", **fields)
        return plan_start(
            request, found(request), default_dir=HOME, tools=TOOLS, checks=self.CHECKS, session_id=session(1), now=NOW
        )

    def resume(self, earlier: Run, **fields: Any) -> Run:
        request = ContinueRequest(name="alpha", prompt="go on", **fields)
        return plan_continue(
            request, found(request), earlier, default_dir=HOME, tools=TOOLS, checks=self.CHECKS, now=NOW
        )

    def test_one_that_is_known_goes_with_a_goal(self) -> None:
        self.assertEqual(self.start(goal="g", check="lint").check, "lint")
        self.assertIsNone(self.start(goal="g").check)

    def test_one_that_is_not_is_refused_with_those_that_are(self) -> None:
        error = self.assertRaises(BadRequest, self.start, goal="g", check="deploy")
        self.assertEqual(str(error), "check: 'deploy' is none of the operator's checks; they are tests, lint")

    def test_without_a_goal_it_is_refused(self) -> None:
        self.assertIn("check: needs `goal`", str(self.assertRaises(BadRequest, self.start, check="lint")))

    def test_where_there_are_none_the_error_says_how_an_operator_gives_some(self) -> None:
        error = self.assertRaises(BadRequest, started, goal="g", check="tests")
        self.assertIn("--checks", str(error))

    def test_it_carries_over_with_the_goal(self) -> None:
        earlier = earlier_run(check="lint")
        self.assertEqual(self.resume(earlier).check, "lint")
        self.assertEqual(self.resume(earlier, check="tests").check, "tests")
        self.assertIsNone(self.resume(earlier, goal="").check)

    def test_after_it_passed_a_continue_is_a_single_turn_unless_a_goal_is_given(self) -> None:
        earlier = earlier_run(StopKind.CHECK_PASSED, check="lint")
        self.assertEqual((self.resume(earlier).goal, self.resume(earlier).check), (None, None))
        self.assertEqual(self.resume(earlier, goal="more").check, "lint")
