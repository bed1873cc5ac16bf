"""The operator's page as bytes: what it shows, what it escapes, what it says to the browser."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any
from xml.etree import ElementTree

from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.resource import IResource
from zope.interface.verify import verifyObject

from hivesub.interfaces import IOperatorView
from hivesub.web.guard import Bearer, HostRule
from hivesub.web.page.draw import activity, activity_words, timeline
from hivesub.web.page.resource import page_resources
from hivesub.web.site import BoundedSite
from hivesub.web.tree import Tree
from tests.support.pagefakes import FakeOperatorView, a_blocked_record, a_record, a_turn
from tests.support.webfakes import FakeTokens, connection, never

NOW = datetime(2031, 5, 6, 7, 8, 43, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>"


class PageCase(SynchronousTestCase):
    bearer: Bearer | None = None

    def setUp(self) -> None:
        self.fleet = FakeOperatorView()
        hosts = HostRule()
        hosts.bind("127.0.0.1", 8787)
        self.clock = Clock()
        pages: dict[str, IResource] = dict(page_resources(self.fleet, lambda: NOW, self.clock))
        tree = Tree(
            agent=never, control=never, tokens=FakeTokens(), hosts=hosts, bearer=self.bearer, clock=Clock(), pages=pages
        )
        self.site = BoundedSite(tree.resource(), Clock())

    def send(self, path: str, method: str = "GET", headers: str = "") -> StringTransport:
        self.channel, transport = connection(self.site)
        self.channel.dataReceived(f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:8787\r\n{headers}\r\n".encode())
        return transport

    def ask(self, path: str, method: str = "GET", headers: str = "") -> tuple[int, dict[str, str], str]:
        transport = self.send(path, method, headers)
        while self.clock.getDelayedCalls():
            self.clock.advance(0)
        head, _, body = transport.value().decode().partition("\r\n\r\n")
        status, *lines = head.split("\r\n")
        named = dict(line.split(": ", 1) for line in lines)
        return int(status.split(" ")[1]), {name.lower(): value for name, value in named.items()}, body

    def page(self, path: str = "/") -> str:
        status, _, body = self.ask(path)
        self.assertEqual(status, 200)
        return body

    def text(self, path: str = "/") -> str:
        """What a reader sees, without markup, white space as single blanks."""
        return " ".join(re.sub(r"<[^>]*>", " ", self.page(path)).split())


class ThePageOfAll(PageCase):
    def test_the_fake_gives_what_the_page_needs(self) -> None:
        verifyObject(IOperatorView, self.fleet)

    def test_it_says_so_when_nothing_has_been_started(self) -> None:
        self.assertIn("None has been started yet.", self.text())
        self.assertNotIn("<table", self.page())

    def test_a_running_subagent_has_state_turn_age_goal_and_cost(self) -> None:
        self.fleet.records = [a_record()]
        page = self.page()
        self.assertIn('<span class="pill running">running</span>', page)
        self.assertIn('<progress value="2" max="5" aria-label="Turn 2 of 5">', page)
        self.assertIn('<span class="age" data-age="3.25">3 s ago</span>', page)
        for words in ("all tests pass", "$0.2500", "1 running"):
            self.assertIn(words, self.text())
        self.assertIn("<title>1 running · hivesub</title>", page)

    def test_one_that_waits_for_its_api_says_so_in_the_list_and_on_its_page(self) -> None:
        wait = {"error": "rate_limit", "status": 429, "attempt": 7, "max_attempts": 10, "since": "2031-05-06T07:05:09Z"}
        self.fleet.records = [a_record(retrying=wait)]
        for text in (self.text(), self.text("/?name=alpha")):
            self.assertIn("waits for the API: rate_limit, attempt 7 of 10, for", text)

    def test_one_that_waits_for_a_usage_limit_says_until_when(self) -> None:
        self.fleet.records = [
            a_record(state="waiting", last_event_age_s=None, pid=None, waiting_until="2031-05-06T09:30:12.000Z")
        ]
        self.assertIn('<span class="pill waiting">waiting</span>', self.page())
        for text in (self.text(), self.text("/?name=alpha")):
            self.assertIn("the turn is run again at 2031-05-06 09:30 UTC", text)
            self.assertNotIn("starting", text)
            self.assertIn("1 waiting", text)

    def test_one_that_claude_cut_off_says_why(self) -> None:
        last = {
            "outcome": "cut", "signal": None, "exit_code": 0, "detail": "its last answer was paused",
            "ended_at": "2031-05-06T07:09:09.000Z",
        }  # fmt: skip
        reason = {"kind": "cut", "message": "its last answer was paused"}
        self.fleet.records = [a_record(state="idle", last_turn=last, stop_reason=reason, last_event_age_s=None)]
        self.assertIn("was cut off by claude, not finished: its last answer was paused", self.text())
        self.assertIn("was cut off by claude, not finished: its last answer was paused", self.text("/?name=alpha"))

    def test_one_that_wrote_nothing_for_long_is_marked_so(self) -> None:
        self.fleet.records = [a_record("q", last_event_age_s=61.0), a_record("s", last_event_age_s=301.0)]
        self.assertIn('class="age quiet" data-age="61">1 min 1 s ago', self.page())
        self.assertIn('class="age silent" data-age="301">5 min 1 s ago', self.page())

    def test_a_blocked_one_shows_its_question(self) -> None:
        self.fleet.records = [a_blocked_record("beta", "Which table?")]
        self.assertIn("is blocked and asks for help: “Which table?”", self.text())
        self.assertIn("ended 07:08:13 UTC", self.text())

    def test_a_claim_is_shown_as_one(self) -> None:
        record = a_blocked_record("beta", "done")
        record["signals"][0]["kind"] = record["stop_reason"]["kind"] = "goal_reached"
        record["state"] = "idle"
        self.fleet.records = [record]
        self.assertIn("self-reported, not verified", self.text())
        self.assertIn("goal_reached (self-reported, not verified)", self.text("/?name=beta"))

    def test_why_a_run_was_cut_short_is_told(self) -> None:
        last = {
            "outcome": "killed",
            "signal": "SIGKILL",
            "exit_code": None,
            "detail": "died on SIGKILL",
            "ended_at": "x",
        }
        stop = {"kind": "killed", "message": "died on SIGKILL"}
        self.fleet.records = [a_record(state="killed", last_turn=last, stop_reason=stop, last_event_age_s=None)]
        self.assertIn("was killed mid-turn, not finished: died on SIGKILL", self.text())


class ManySubagents(PageCase):
    def test_the_reactor_has_its_turn_in_between(self) -> None:
        self.fleet.records = [a_record(f"n{number}") for number in range(20)]
        transport = self.send("/")
        self.assertEqual(transport.value(), b"")
        for _ in range(2):
            self.clock.advance(0)
        self.assertEqual(transport.value().count(b'<tr role="row" id='), 20)

    def test_one_who_leaves_in_between_is_answered_nothing(self) -> None:
        self.fleet.records = [a_record(f"n{number}") for number in range(20)]
        transport = self.send("/")
        assert self.channel is not None
        self.channel.connectionLost(Failure(ConnectionDone()))
        for _ in range(2):
            self.clock.advance(0)
        self.assertEqual(transport.value(), b"")


class ThePageOfOne(PageCase):
    def test_it_has_turns_output_signals_report_and_todo(self) -> None:
        record = a_blocked_record("beta", "Which table?")
        record |= {"report_file": "/srv/work/r.md", "report_error": "the disk is full"}
        record["history"]["turns"] = [a_turn(1), a_turn(2, "killed", signal="SIGTERM", detail="cut off")]
        self.fleet.records = [record]
        text = self.text("/?name=beta")
        for words in (
            "Turn 2 of 5 finished.", "need_help", "Which table?", "/srv/work/r.md", "the disk is full", "delivered",
            "killed SIGTERM", "cut off", "700 B", "2031-05-06 07:08:13 UTC",
        ):  # fmt: skip
            self.assertIn(words, text)

    def test_the_turn_in_flight_is_drawn_with_how_long_it_runs(self) -> None:
        self.fleet.records = [a_record()]
        self.assertIn("turn 1 finished after 4 s; running for 30 s.", self.page("/?name=alpha"))

    def test_the_turns_of_earlier_runs_are_told_apart(self) -> None:
        record = a_record()
        record["history"] |= {"run": 2, "turns": [a_turn(1), a_turn(1, run=2)]}
        self.fleet.records = [record]
        text = self.text("/?name=alpha")
        self.assertIn("1 of run 1", text)
        self.assertIn("1 of run 2", text)

    def test_each_turn_that_was_checked_has_a_tick_a_cross_or_a_question_mark(self) -> None:
        record = a_record()
        turns = [a_turn(number, check=check) for number, check in enumerate(("failed", "timed_out", "passed", None), 1)]
        record["history"] |= {"turns": turns}
        self.fleet.records = [record]
        text = self.text("/?name=alpha")
        self.assertEqual([text.count(mark) for mark in "✓✗?"], [1, 1, 1])

    def test_what_it_did_last_is_shown_the_latest_first(self) -> None:
        self.fleet.records = [a_record(transcript="/c/projects/x/s.jsonl")]
        self.assertNotIn("Last steps", self.text("/?name=alpha"))
        self.fleet.did["steps"] = [
            {"at": "2031-05-06T07:08:09.123Z", "what": "Read", "text": "/srv/a.py"},
            {"at": "", "what": "Bash", "text": HOSTILE},
        ]
        text = self.text("/?name=alpha")
        self.assertIn("07:08:09 UTC Read /srv/a.py", text)
        self.assertLess(text.index("Bash"), text.index("07:08:09 UTC Read"))
        self.assertIn("Transcript /c/projects/x/s.jsonl", text)
        self.assertNotIn("<script>alert", self.page("/?name=alpha"))

    def test_its_steps_are_given_as_json_to_who_asks_for_them(self) -> None:
        self.fleet.records = [a_record()]
        self.fleet.did["offset"] = 7
        status, headers, body = self.ask("/steps?name=alpha&after=3")
        self.assertEqual((status, headers["content-type"]), (200, "application/json"))
        self.assertEqual(json.loads(body), {"transcript": None, "steps": [], "offset": 7})
        for odd in ("after=x", "after=-1", "after=" + "9" * 30, ""):
            self.assertEqual(self.ask(f"/steps?name=alpha&{odd}")[0], 200)
        self.assertEqual([self.ask(path)[0] for path in ("/steps?name=nope", "/steps")], [404, 404])

    def test_an_unknown_name_is_a_page_with_status_404(self) -> None:
        status, _, body = self.ask("/?name=%3Cb%3E")
        self.assertEqual(status, 404)
        self.assertIn("No subagent of that name is known", body)
        self.assertNotIn("<b>", body)

    def test_a_single_turn_without_history_is_shown_too(self) -> None:
        record = a_record(goal=None, turn=None, max_turns=None, last_event_age_s=None)
        record["history"] |= {"turns": [], "turn_started_at": None, "activity": {"slot_s": 5, "bytes": [0] * 120}}
        self.fleet.records = [record]
        text = self.text("/?name=alpha")
        for words in ("single turn", "starting", "None has ended yet."):
            self.assertIn(words, text)


class WhatSubagentsWrite(PageCase):
    def everywhere(self, words: str) -> Any:
        record = a_blocked_record("beta", words)
        record |= {"goal": words, "report_file": words, "report_error": words, "dir": words, "session_id": words}
        record |= {"missing_tools": [words]}
        record["last_turn"]["detail"] = words
        record["history"]["turns"] = [a_turn(1, detail=words, signal=words)]
        return record

    def test_it_never_becomes_markup(self) -> None:
        self.fleet.records = [self.everywhere(HOSTILE)]
        for path in ("/", "/?name=beta"):
            page = self.page(path)
            self.assertEqual(re.findall(r"<script[^>]*>", page), ['<script src="page.js" defer="defer">'])
            self.assertNotIn("<img", page)
            self.assertIn("&lt;script&gt;", page)
            # Well formed, so nothing broke out of an attribute.
            ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))

    def test_what_no_page_can_hold_is_replaced_and_breaks_nothing(self) -> None:
        self.fleet.records = [self.everywhere("a\ud83d\x00\x1b[1mb")]
        for path in ("/", "/?name=beta"):
            self.assertIn("a\ufffd\ufffd\ufffd[1mb", self.page(path))


class WhatTheBrowserIsTold(PageCase):
    def test_only_the_pages_own_files_are_allowed_and_none_is_inline(self) -> None:
        self.fleet.records = [a_record()]
        for path in ("/", "/?name=alpha", "/?name=nobody", "/page.js", "/page.css", "/icon.svg"):
            _, headers, body = self.ask(path)
            policy = headers["content-security-policy"]
            self.assertTrue(policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; "), path)
            self.assertNotIn("unsafe", policy)
            self.assertEqual((headers["x-content-type-options"], headers["cache-control"]), ("nosniff", "no-store"))
            if path.startswith("/?") or path == "/":
                self.assertNotRegex(body, r"\sstyle=|\son[a-z]+=|<style")

    def test_each_file_has_its_type(self) -> None:
        types = {path: self.ask(path)[1]["content-type"] for path in ("/", "/page.js", "/page.css", "/icon.svg")}
        self.assertEqual(
            types,
            {
                "/": "text/html; charset=utf-8", "/page.js": "text/javascript; charset=utf-8",
                "/page.css": "text/css; charset=utf-8", "/icon.svg": "image/svg+xml",
            },
        )  # fmt: skip

    def test_nothing_comes_from_elsewhere(self) -> None:
        for name in ("page.js", "page.css", "shell.xhtml", "overview.xhtml", "subagent.xhtml"):
            text = (files("hivesub.web.page") / name).read_text()
            found = [url for url in re.findall(r"https?://[^\s\"']+", text) if "twistedmatrix.com/ns" not in url]
            self.assertEqual(found, [], name)

    def test_head_is_answered_without_a_body_and_nothing_else_but_get_is_taken(self) -> None:
        status, headers, body = self.ask("/", "HEAD")
        self.assertEqual((status, body), (200, ""))
        self.assertGreater(int(headers["content-length"]), 500)
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            status, headers, _ = self.ask("/", method, "Content-Length: 0\r\n")
            self.assertEqual((status, headers["allow"]), (405, "GET, HEAD"))


class WhoMayLook(PageCase):
    bearer = Bearer("t0ken")

    def test_every_file_asks_for_the_token(self) -> None:
        for path in ("/", "/?name=alpha", "/steps?name=alpha", "/page.js", "/page.css", "/icon.svg"):
            status, headers, _ = self.ask(path)
            self.assertEqual(status, 401, path)
            self.assertIn("www-authenticate", headers)

    def test_the_token_is_taken_as_a_bearer_and_as_a_browser_sends_it(self) -> None:
        self.assertEqual(self.ask("/", headers="Authorization: Bearer t0ken\r\n")[0], 200)
        self.assertEqual(self.ask("/", headers="Authorization: Basic YW55Ym9keTp0MGtlbg==\r\n")[0], 200)


class TheDrawings(SynchronousTestCase):
    def test_output_is_one_path_with_a_bar_for_each_slot_that_has_some(self) -> None:
        drawn = activity([0, 10, 0, 1000], 5, "running", live=True)
        (path,) = drawn.children
        self.assertEqual(str(path.attributes["d"]).count("M"), 2)  # type: ignore[union-attr]
        self.assertEqual(activity([0, 0], 5, "running", live=True).children, [])

    def test_what_is_drawn_is_told_in_words_too(self) -> None:
        self.assertEqual(
            activity_words([0, 10, 0, 1000], 5, live=True),
            "Output in the last 20 s: 1.01 kB, in 2 of 4 slots of 5 s.",
        )
        self.assertEqual(activity_words([0] * 120, 5, live=False), "Output in the 10 min up to its last output: none.")

    def test_a_turn_is_as_wide_as_it_was_long_and_the_shortest_can_be_seen(self) -> None:
        drawn = timeline([a_turn(1, duration_s=0.0), a_turn(2, "failed", duration_s=100.0)], 100.0)
        widths = [float(str(rect.attributes["width"])) for rect in drawn.children]  # type: ignore[union-attr]
        self.assertGreaterEqual(widths[0], 1)
        self.assertEqual(widths[1], widths[2])
        self.assertTrue(990 <= sum(widths) <= 1000, widths)

    def test_a_hundred_turns_fit(self) -> None:
        drawn = timeline([a_turn(number, duration_s=number) for number in range(100)], None)
        last = drawn.children[-1]
        self.assertLessEqual(
            float(str(last.attributes["x"])) + float(str(last.attributes["width"])), 1000.5  # type: ignore[union-attr]
        )  # fmt: skip
