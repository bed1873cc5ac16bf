"""Which values the redactor is told to hide, by their names and shapes."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hivesub.secretvalues import environment_secrets, url_secrets


class EnvironmentTests(SynchronousTestCase):
    def test_a_variable_named_like_a_secret_is_one(self) -> None:
        for name in (
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "CLIENT_SECRET",
            "PGPASSWORD",
            "Db_Password",
            "SSH_PASSPHRASE",
            "GITHUB_PAT",
            "openai_apikey",
        ):
            self.assertEqual(environment_secrets({name: "v-1"}), {"v-1"}, name)

    def test_other_variables_are_none(self) -> None:
        ordinary = {
            "PATH": "/usr/bin",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "32000",
            "HIVESUB_AUTH_TOKEN_FILE": "/etc/hivesub/token",
            "ANTHROPIC_BASE_URL": "https://models.example/v1?x=1",
            "FORMAT": "long",
            "EMPTY_TOKEN": "",
        }
        self.assertEqual(environment_secrets(ordinary), set())

    def test_the_password_of_a_url_is_one_whatever_the_variable_is_called(self) -> None:
        self.assertEqual(environment_secrets({"HTTPS_PROXY": "http://me:p%40ss@proxy:3128"}), {"p%40ss", "p@ss"})
        self.assertEqual(environment_secrets({"NO_URL": "http://[", "TWO": "a://b http://u:pw1@h"}), {"pw1"})

    def test_the_values_of_claudes_extra_headers_are_secrets(self) -> None:
        given = {"ANTHROPIC_CUSTOM_HEADERS": "X-Org: o-77\nAuthorization: Bearer b-88"}
        self.assertEqual(environment_secrets(given), {"o-77", "Bearer b-88", "b-88"})

    def test_each_line_of_a_key_of_several_lines_is_one(self) -> None:
        self.assertEqual(environment_secrets({"DEPLOY_KEY": "one\ntwo"}), {"one\ntwo", "one", "two"})


class URLTests(SynchronousTestCase):
    def test_user_password_and_query_values_are_secrets(self) -> None:
        found = url_secrets("https://me%2B:p%40ss@host/path?key=k1&empty=")
        self.assertEqual(found, {"me%2B", "me+", "p%40ss", "p@ss", "k1"})

    def test_a_part_of_the_path_that_nobody_chose_is_one(self) -> None:
        url = "https://hooks.example/services/T0001/B02/Zq3bXv9LmK2pR7sTyW1c/subagent-notifications"
        self.assertEqual(url_secrets(url), {"Zq3bXv9LmK2pR7sTyW1c"})
        self.assertEqual(url_secrets("http://host/a/0123456789%2Dabcdef"), {"0123456789%2Dabcdef", "0123456789-abcdef"})

    def test_a_url_without_any_holds_none_and_a_broken_one_neither(self) -> None:
        self.assertEqual(url_secrets("https://host/path"), set())
        self.assertEqual(url_secrets("http://["), set())
