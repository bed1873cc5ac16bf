"""What a `continue` answers that was over before its turn was under way."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from hivesub.records import ContinueRequest, Outcome
from hivesub.runs.earlyend import continue_error
from hivesub.runs.plan import plan_continue
from tests.support.runfakes import CONFIG_DIR, NOW, TOOLS, session, turn_end, unborn

RUN = plan_continue(
    ContinueRequest(name="alpha", prompt="p"), None, None, default_dir=Path("/srv/work"), tools=TOOLS, now=NOW
)


class TheErrorOfAContinue(SynchronousTestCase):
    def test_a_miss_names_the_place_that_was_searched(self) -> None:
        for message in (
            f"No conversation found with session ID: {session(1)}",
            "--resume requires a valid session ID or session title when used with --print. "
            'Provided value "alpha" is not a UUID and does not match any session title.',
        ):
            self.assertEqual(
                continue_error(RUN, unborn(message), CONFIG_DIR),
                f"claude error: {message} (searched /home/op/.claude for cwd /srv/work; "
                "if it was started elsewhere, pass the `dir` it was started in)",
            )

    def test_any_other_exit_tells_claudes_message_alone(self) -> None:
        self.assertEqual(continue_error(RUN, unborn("Not logged in"), CONFIG_DIR), "claude error: Not logged in")

    def test_without_a_message_it_tells_what_was_seen(self) -> None:
        silent = unborn("", detail="exit 0 without a result")
        self.assertEqual(continue_error(RUN, silent, CONFIG_DIR), "claude error: exit 0 without a result")
        nothing = turn_end(Outcome.FAILED, exit_code=7, under_way=False)
        self.assertIn("exited with code 7", continue_error(RUN, nothing, CONFIG_DIR))
