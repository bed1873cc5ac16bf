"""The value of `--settings`, and the child's `NO_PROXY`."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hivesub.turns.confinement import ADDRESSES, HELPERS, Confinement, OwnSettings, confine

URL = "http://127.0.0.1:8787/signal/mcp/token"


def confined(own: OwnSettings | None = None, *, hooks: bool = False, url: str = URL, **environ: str) -> Confinement:
    return confine(environ, own or OwnSettings(), hooks=hooks, signal_url=url)


def settings(*args: Any, **rest: Any) -> dict[str, Any]:
    return dict(json.loads(confined(*args, **rest).settings))


class Settings(SynchronousTestCase):
    def test_by_default_hooks_inbox_helpers_and_foreign_addresses_are_closed(self) -> None:
        found = settings()
        self.assertEqual((found["disableAllHooks"], found["crossSessionInbound"]), (True, "refuse"))
        self.assertEqual([found[name] for name in HELPERS], [""] * len(HELPERS))
        self.assertEqual({found["env"][name] for name in ADDRESSES}, {""})

    def test_hooks_can_be_left_to_the_user_and_nothing_else(self) -> None:
        found = settings(hooks=True)
        self.assertNotIn("disableAllHooks", found)
        self.assertEqual({key: value for key, value in settings().items() if key != "disableAllHooks"}, found)

    def test_the_addresses_of_the_environment_hold_and_those_of_the_user_before_them(self) -> None:
        environ = {"ANTHROPIC_BASE_URL": "http://gateway", "HTTPS_PROXY": "http://proxy"}
        own = OwnSettings(env={"ANTHROPIC_BASE_URL": "http://own", "EDITOR": "vi"})
        found = settings(own, **environ)["env"]
        self.assertEqual((found["ANTHROPIC_BASE_URL"], found["HTTPS_PROXY"]), ("http://own", "http://proxy"))
        self.assertNotIn("EDITOR", found)

    def test_the_endpoints_of_a_cloud_are_pinned_where_it_is_used(self) -> None:
        self.assertNotIn("AWS_ENDPOINT_URL", settings()["env"])
        self.assertEqual(settings(CLAUDE_CODE_USE_BEDROCK="1")["env"]["AWS_ENDPOINT_URL"], "")

    def test_what_may_hold_a_secret_is_said_to_be_private(self) -> None:
        self.assertFalse(confined().private)
        self.assertFalse(confined(HTTPS_PROXY="http://proxy:3128").private)
        self.assertTrue(confined(HTTPS_PROXY="http://me:secretsecret@proxy:3128").private)
        self.assertTrue(confined(OwnSettings(helpers={"apiKeyHelper": "echo key"})).private)
        self.assertNotIn("secret", repr(confined(HTTPS_PROXY="http://me:secretsecret@proxy:3128")))

    def test_they_hold_no_token_and_fit_an_argument(self) -> None:
        self.assertNotIn("token", confined().settings)
        self.assertLess(len(confined().settings), 4096)


class Unproxied(SynchronousTestCase):
    def test_the_host_of_the_signal_url_is_added_to_what_is_there(self) -> None:
        environ = confined(NO_PROXY="intra.example").environ
        self.assertEqual(environ["NO_PROXY"], "intra.example,127.0.0.1")

    def test_one_spelling_speaks_for_both(self) -> None:
        environ = confined(no_proxy="a, b").environ
        self.assertEqual((environ["NO_PROXY"], environ["no_proxy"]), ("a,b,127.0.0.1",) * 2)

    def test_what_covers_it_already_stays_as_it_is(self) -> None:
        for said in ("*", "127.0.0.1", "x,127.0.0.1"):
            self.assertEqual(confined(NO_PROXY=said).environ["NO_PROXY"], said)

    def test_a_projects_settings_cannot_undo_it(self) -> None:
        found = confined(url="http://hive.example:1/signal/mcp/t")
        self.assertEqual(json.loads(found.settings)["env"]["no_proxy"], "hive.example")

    def test_the_rest_of_the_environment_stays(self) -> None:
        self.assertEqual(confined(PATH="/bin").environ["PATH"], "/bin")
