"""Calls made once: twins in flight."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from hivesub.errors import BadRequest, RequestKeyReused
from hivesub.records import ContinueRequest, StartRequest
from hivesub.runs.requestkeys import RequestKeys, check_same, digest_of


def request(prompt: str = "p", key: str = "k") -> StartRequest:
    return StartRequest(name="alpha", prompt=prompt, request_key=key)


class TwinsInFlight(SynchronousTestCase):
    def setUp(self) -> None:
        self.once = RequestKeys()
        self.cancelled = 0
        self.works: list[Deferred[Any]] = []

    def work(self) -> Deferred[Any]:
        def cancelled(work: object) -> None:
            self.cancelled += 1

        self.works.append(Deferred(cancelled))
        return self.works[-1]

    def join(self, ident: str = "k", prompt: str = "p") -> Deferred[Any]:
        return self.once.join(ident, request(prompt), self.work)

    def test_two_calls_of_one_key_are_one_call_with_one_answer(self) -> None:
        first, second = self.join(), self.join()
        self.assertEqual(len(self.works), 1)
        self.works[0].callback({"answer": 1})
        self.assertEqual(self.successResultOf(first), {"answer": 1})
        self.assertEqual(self.successResultOf(second), {"answer": 1})

    def test_an_error_goes_to_all_and_the_next_call_is_made_anew(self) -> None:
        twins = [self.join(), self.join()]
        self.works[0].errback(BadRequest("no"))
        for twin in twins:
            self.failureResultOf(twin, BadRequest)
        self.join()
        self.assertEqual(len(self.works), 2)

    def test_other_keys_are_other_calls(self) -> None:
        self.join("k"), self.join("l")
        self.assertEqual(len(self.works), 2)

    def test_a_twin_with_other_arguments_is_refused_and_disturbs_nobody(self) -> None:
        first = self.join()
        with self.assertRaises(RequestKeyReused):
            self.join(prompt="other")
        self.works[0].callback({})
        self.successResultOf(first)

    def test_one_who_gives_up_leaves_the_call_to_the_other(self) -> None:
        first, second = self.join(), self.join()
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.assertEqual(self.cancelled, 0)
        self.works[0].callback({"answer": 1})
        self.assertEqual(self.successResultOf(second), {"answer": 1})

    def test_the_last_who_gives_up_ends_the_wait(self) -> None:
        twins = [self.join(), self.join()]
        for twin in twins:
            twin.cancel()
            self.failureResultOf(twin, CancelledError)
        self.assertEqual(self.cancelled, 1)
        self.join()
        self.assertEqual(len(self.works), 2)

    def test_who_is_answered_may_cancel_a_twin_that_is_about_to_be(self) -> None:
        first, second = self.join(), self.join()
        first.addCallback(lambda answer: second.cancel())
        self.works[0].callback({})
        self.failureResultOf(second, CancelledError)
        self.successResultOf(first)


class Sameness(SynchronousTestCase):
    def test_the_key_is_no_argument(self) -> None:
        check_same(digest_of(request(key="k")), request(key="l"))

    def test_a_text_that_utf8_cannot_carry_is_compared_too(self) -> None:
        kept = digest_of(request("\ud800"))
        check_same(kept, request("\ud800"))
        self.assertRaises(RequestKeyReused, check_same, kept, request("\ud801"))

    def test_every_argument_counts_and_the_error_names_the_field_and_not_the_prompt(self) -> None:
        error = self.assertRaises(RequestKeyReused, check_same, digest_of(request("one")), request("two"))
        self.assertIn("request_key: 'k'", str(error))
        self.assertNotIn("two", str(error))
        kept = digest_of(ContinueRequest(name="alpha", prompt="p", goal=None))
        self.assertRaises(RequestKeyReused, check_same, kept, ContinueRequest(name="alpha", prompt="p", goal=""))
