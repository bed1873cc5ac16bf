"""Which values the redactor is told to hide, by their names and shapes."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hivesub.redaction.detection import environment_secrets, server_secrets, url_secrets


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
            "DB_PASS",
            "MYSQL_PWD",
            "OLDPWD_PWD",
        ):
            self.assertEqual(environment_secrets({name: "v-1"}), {"v-1"}, name)

    def test_other_variables_are_none(self) -> None:
        ordinary = {
            "PATH": "/usr/bin",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "32000",
            "HIVESUB_AUTH_TOKEN_FILE": "/etc/hivesub/token",
            "ANTHROPIC_BASE_URL": "https://models.example/v1?x=1",
            "FORMAT": "long",
            "HOST_PWD": "/home/me/work",
            "DB_PASS": "/run/secrets/db",
            "EMPTY_TOKEN": "",
            "PWD": "/home/op",
            "OLDPWD": "/srv",
            "BYPASS": "localhost",
        }
        self.assertEqual(environment_secrets(ordinary), set())

    def test_credentials_are_a_secret_unless_it_is_the_path_of_their_file(self) -> None:
        given = {"GOOGLE_APPLICATION_CREDENTIALS": "/etc/gcp.json", "BROKER_CREDENTIALS": "me:pass-1"}
        self.assertEqual(environment_secrets(given), {"me:pass-1"})

    def test_the_password_of_a_url_is_one_whatever_the_variable_is_called(self) -> None:
        self.assertEqual(environment_secrets({"HTTPS_PROXY": "http://me:p%40ss@proxy:3128"}), {"p%40ss", "p@ss"})
        self.assertEqual(environment_secrets({"NO_URL": "http://[", "TWO": "a://b http://u:pw1@h"}), {"pw1"})

    def test_the_values_of_claudes_extra_headers_are_secrets(self) -> None:
        given = {"ANTHROPIC_CUSTOM_HEADERS": "X-Org: o-77\nAuthorization: Bearer b-88"}
        self.assertEqual(environment_secrets(given), {"o-77", "Bearer b-88", "b-88"})

    def test_each_line_of_a_key_of_several_lines_is_one(self) -> None:
        self.assertEqual(environment_secrets({"DEPLOY_KEY": "one\ntwo"}), {"one\ntwo", "one", "two"})


class URLTests(SynchronousTestCase):
    def test_of_a_query_it_is_what_is_named_or_looks_like_a_credential(self) -> None:
        url = f"https://h/hook?agent=reviewer-1&team=blue-2&api_key=k-1&sig=s-1&access_token=t-1&id={RANDOM}&page=12"
        self.assertEqual(url_secrets(url), {"k-1", "s-1", "t-1", RANDOM})

    def test_user_password_and_query_values_are_secrets(self) -> None:
        found = url_secrets("https://me%2B:p%40ss@host/path?key=k1&empty=")
        self.assertEqual(found, {"me%2B", "me+", "p%40ss", "p@ss", "k1"})

    def test_a_part_of_the_path_that_nobody_chose_is_one(self) -> None:
        url = "https://hooks.example/services/T0001/B02/Zq3bXv9LmK2pR7sTyW1c/subagent-notifications"
        self.assertEqual(url_secrets(url), {"Zq3bXv9LmK2pR7sTyW1c"})
        self.assertEqual(url_secrets("http://host/a/0a1b2c3d4e%2D5f6a"), {"0a1b2c3d4e%2D5f6a", "0a1b2c3d4e-5f6a"})
        chat = "https://api.example/bot123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw/sendMessage"
        self.assertIn("AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw", url_secrets(chat))
        self.assertEqual(url_secrets("https://host/v1/customer-portal-2024/mcp"), set())

    def test_plain_words_are_none(self) -> None:
        url = "postgresql://postgres:pw-12345@db/app?sslmode=verify-full&root=/srv/work&token=plain"
        self.assertEqual(url_secrets(url), {"pw-12345", "plain"})
        self.assertEqual(url_secrets("https://onlyaword@host/"), {"onlyaword"})

    def test_a_path_of_this_machine_is_none(self) -> None:
        for path in ("/srv/build-0123456789abcdef/x", "file:///srv/build-0123456789abcdef"):
            self.assertEqual(url_secrets(path), set())

    def test_a_url_without_any_holds_none_and_a_broken_one_neither(self) -> None:
        self.assertEqual(url_secrets("https://host/path"), set())
        self.assertEqual(url_secrets("http://["), set())


RANDOM = "tok-4f5a6b7c8d9e0f1a2b3c"


class ServerTests(SynchronousTestCase):
    def test_a_variable_is_a_secret_by_its_name_or_by_the_look_of_its_value(self) -> None:
        found = server_secrets({"DB_PASS": "hunter", "ACCOUNT": RANDOM, "URL": f"https://me:pw-1@h/{RANDOM}x"}, {}, [])
        self.assertEqual(found, {"hunter", RANDOM, "pw-1", f"{RANDOM}x"})

    def test_every_header_is_a_secret_and_what_stands_in_it(self) -> None:
        headers = {"Authorization": "Basic bWU6cHc=", "Cookie": f"a=b; sid={RANDOM}", "X-Team": "a-word"}
        found = server_secrets({}, headers, [])
        self.assertLessEqual({"Basic bWU6cHc=", "bWU6cHc=", f"a=b; sid={RANDOM}", RANDOM, "a-word"}, found)

    def test_words_and_paths_are_none_wherever_they_stand(self) -> None:
        for value in (
            "production",
            "customer-portal-2024",
            "/srv/work",
            "/srv/build-0f1a2b3c4d5e6f70/x",
            "~/work/0f1a2b3c4d5e6f70",
            "file:///srv/build-0f1a2b3c4d5e6f70",
            "mcp-remote@0.1.16",
            "keycloak:26.0.1-debug",
            "postgresql://localhost/app?sslmode=verify-full",
        ):
            arguments = [value, f"--dir={value}", "--keyspace=production"]
            self.assertEqual(server_secrets({"PLACE": value}, {}, arguments), set(), value)

    def test_of_arguments_it_is_what_stands_where_secrets_do(self) -> None:
        for args, secret in (
            (["--header", "Authorization: Bearer b-1"], "b-1"),
            (["--header", "Authorization:Basic bWU6cHc="], "bWU6cHc="),
            (["--header=X-Api-Key: k-1"], "k-1"),
            (["say Bearer b-1 to it"], "b-1"),
            (["--token=t-1"], "t-1"),
            (["--api-key", "k-1"], "k-1"),
            (["--client-secret-value s-1"], "s-1"),
            (["-e", "GITHUB_TOKEN=g-1"], "g-1"),
            (["--env=DB_PASSWORD=d-1"], "d-1"),
            (["--url=postgresql://postgres:pw-1@h/db"], "pw-1"),
            ([f"--account={RANDOM}"], RANDOM),
            ([RANDOM], RANDOM),
        ):
            found = server_secrets({}, {}, args)
            self.assertIn(secret, found, args)
            self.assertEqual({"postgres", "--token", "--api-key"} & found, set())

    def test_a_path_or_another_option_after_an_option_named_like_a_secret_is_none(self) -> None:
        args = ["--tls-key", "/etc/tls/server.pem", "--token-store=/srv/work", "--no-token", "--verbose"]
        self.assertEqual(server_secrets({}, {}, args), set())
