"""Signal tokens: alive from mint to revoke."""

from __future__ import annotations

import re

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from hivesub.interfaces import ISignalTarget, ITokens
from hivesub.records import SignalKind
from hivesub.redaction.redactor import Redactor
from hivesub.runs.signals import Tokens


@implementer(ISignalTarget)
class Target:
    def request_began(self) -> None:
        raise NotImplementedError

    def request_ended(self) -> None:
        raise NotImplementedError

    def signal(self, kind: SignalKind, message: str, report_file: str | None) -> Deferred[str]:
        raise NotImplementedError


class TokenTests(SynchronousTestCase):
    def test_it_provides_its_interface(self) -> None:
        self.assertTrue(verifyObject(ITokens, Tokens(Redactor())))

    def test_a_token_resolves_to_its_target_until_it_is_revoked(self) -> None:
        tokens, one, other = Tokens(Redactor()), Target(), Target()
        first, second = tokens.mint(one), tokens.mint(other)
        self.assertIs(tokens.resolve(first), one)
        self.assertIs(tokens.resolve(second), other)
        tokens.revoke(first)
        self.assertIsNone(tokens.resolve(first))
        self.assertIs(tokens.resolve(second), other)

    def test_what_was_never_minted_resolves_to_nothing(self) -> None:
        tokens = Tokens(Redactor())
        token = tokens.mint(Target())
        for other in ("", "x", token[:-1], token + "A", token.swapcase(), token + "\0", "é" * 43):
            self.assertIsNone(tokens.resolve(other), other)

    def test_revoking_twice_or_a_stranger_changes_nothing(self) -> None:
        tokens = Tokens(Redactor())
        token = tokens.mint(Target())
        tokens.revoke("stranger")
        self.assertIsNotNone(tokens.resolve(token))
        tokens.revoke(token)
        tokens.revoke(token)
        self.assertIsNone(tokens.resolve(token))

    def test_a_token_has_256_bits_in_url_safe_characters_and_no_twin(self) -> None:
        tokens = Tokens(Redactor())
        minted = [tokens.mint(Target()) for _ in range(200)]
        self.assertEqual(len(set(minted)), 200)
        for token in minted:
            self.assertTrue(re.fullmatch(r"[A-Za-z0-9_-]{43}", token), token)

    def test_a_source_that_repeats_itself_is_refused_and_the_living_token_stays(self) -> None:
        tokens, target = Tokens(Redactor(), random_token=lambda: "same" * 11), Target()
        token = tokens.mint(target)
        self.assertRaises(RuntimeError, tokens.mint, Target())
        self.assertIs(tokens.resolve(token), target)

    def test_living_and_dead_tokens_are_redacted(self) -> None:
        redactor = Redactor()
        tokens = Tokens(redactor)
        living, dead = tokens.mint(Target()), tokens.mint(Target())
        tokens.revoke(dead)
        self.assertEqual(redactor.redact(f"{living} {dead}"), "[redacted] [redacted]")
