"""The token that `hivesub token` makes, and where it puts it."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from hivesub.cli.bearer import make_token, saved_token_path
from hivesub.cli.troubles import Unusable
from hivesub.config.optionvalues import read_token_file


class MakeToken(SynchronousTestCase):
    def setUp(self) -> None:
        self.base = Path(self.mktemp()).absolute()
        self.digest, self.saved = self.base / "state" / "auth-token", self.base / "config" / "token"

    def test_the_daemon_gets_the_digest_and_the_command_the_token_and_nobody_else_either(self) -> None:
        token = make_token(self.digest, self.saved, force=False)
        self.assertEqual(read_token_file(self.digest), (f"sha256:{sha256(token.encode()).hexdigest()}", None))
        self.assertEqual(self.saved.read_text(), f"{token}\n")
        for path in (self.digest, self.saved):
            self.assertEqual(path.stat().st_mode & 0o777, 0o600)
            self.assertEqual(path.parent.stat().st_mode & 0o777, 0o700)
            self.assertEqual(list(path.parent.iterdir()), [path])

    def test_each_is_another_and_long_enough_not_to_be_guessed(self) -> None:
        tokens = {make_token(self.digest, None, force=True) for _ in range(3)}
        self.assertEqual(len(tokens), 3)
        self.assertGreaterEqual(min(map(len, tokens)), 43)
        self.assertFalse(self.saved.exists())

    def test_one_that_is_there_is_kept_unless_it_is_forced(self) -> None:
        make_token(self.digest, None, force=False)
        kept = self.digest.read_text()
        error = self.assertRaises(Unusable, make_token, self.digest, self.saved, force=False)
        self.assertIn("--force", str(error))
        self.assertEqual((self.digest.read_text(), self.saved.exists()), (kept, False))
        make_token(self.digest, self.saved, force=True)
        self.assertNotEqual(self.digest.read_text(), kept)
        self.digest.unlink()
        self.assertRaises(Unusable, make_token, self.digest, self.saved, force=False)
        self.assertFalse(self.digest.exists())

    def test_a_place_that_cannot_be_written_is_named(self) -> None:
        self.base.mkdir()
        (self.base / "state").touch()
        error = self.assertRaises(Unusable, make_token, self.digest, None, force=False)
        self.assertIn(str(self.digest), str(error))

    def test_it_is_kept_where_the_users_configuration_is(self) -> None:
        self.assertEqual(saved_token_path({"XDG_CONFIG_HOME": "/c"}), Path("/c/hivesub/token"))
        home = Path("~/.config/hivesub/token").expanduser()
        self.assertEqual(saved_token_path({}), home)
        self.assertEqual(saved_token_path({"XDG_CONFIG_HOME": "relative"}), home)
