"""The redactor: what it replaces, in which forms, and what it leaves alone."""

from __future__ import annotations

import json
from urllib.parse import quote

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from hivesub.interfaces import IRedactor
from hivesub.redaction.redactor import DEAD_TOKENS, Redactor

SECRET = 'p"ss/wörd\\ 1'
TOKEN = "Ab-_" * 10 + "xyz"


class RedactorTests(SynchronousTestCase):
    def test_it_provides_its_interface(self) -> None:
        self.assertTrue(verifyObject(IRedactor, Redactor()))

    def test_a_secret_that_is_an_ordinary_word_replaces_no_identifier(self) -> None:
        for word in ("postgres", "Production", "reviewer-1", "ci-runner", "ADMINISTRATOR", "hunter2024"):
            redactor = Redactor([word])
            self.assertEqual(redactor.redact_identifier(f"/srv/{word}/x"), f"/srv/{word}/x", word)
            self.assertEqual(redactor.redact(f"FATAL: no {word} here"), "FATAL: no [redacted] here", word)

    def test_any_other_secret_and_every_token_is_replaced_in_identifiers_too(self) -> None:
        for secret in (SECRET, "tok-4f5a6b7c8d9e", "sK4trWq9", "correct horse battery staple", "abcdefghijklmnopqrstu"):
            redactor = Redactor([secret, "postgres"])
            self.assertEqual(redactor.redact_identifier(f"/srv/{secret}"), "/srv/[redacted]", secret)
        redactor = Redactor()
        redactor.add_token(TOKEN)
        self.assertEqual(redactor.redact_identifier(f"/w/{TOKEN}"), "/w/[redacted]")
        self.assertEqual(redactor.redact_identifier("/signal/mcp/abc"), "/signal/mcp/[redacted]")

    def test_a_secret_is_found_plain_in_json_in_a_url_and_in_a_repr(self) -> None:
        redact = Redactor([SECRET]).redact
        for text in (
            SECRET,
            json.dumps(SECRET),
            json.dumps(SECRET, ensure_ascii=False),
            quote(SECRET),
            quote(SECRET, safe=""),
            repr(SECRET),
        ):
            said = redact(f"before {text} after")
            self.assertIn("[redacted]", said, text)
            self.assertNotIn("rd", said.replace("[redacted]", ""), text)
            self.assertTrue(said.startswith("before ") and said.endswith(" after"), said)

    def test_a_secret_that_begins_with_another_goes_whole(self) -> None:
        self.assertEqual(Redactor(["secret-1", "secret-1-and-more"]).redact("a secret-1-and-more b"), "a [redacted] b")

    def test_short_ones_are_left_alone(self) -> None:
        self.assertEqual(Redactor(["yes", "", "  true  "]).redact("yes, it is true"), "yes, it is true")

    def test_a_secret_learned_later_counts_from_then_on(self) -> None:
        redactor = Redactor()
        self.assertEqual(redactor.redact("long-secret"), "long-secret")
        redactor.add("long-secret\n")
        self.assertEqual(redactor.redact("long-secret"), "[redacted]")

    def test_any_signal_url_is_replaced_known_or_not(self) -> None:
        redact = Redactor().redact
        self.assertEqual(redact("POST /signal/mcp/abc HTTP/1.1"), "POST /signal/mcp/[redacted] HTTP/1.1")
        self.assertEqual(redact('"http://h/signal/mcp/abc"'), '"http://h/signal/mcp/[redacted]"')
        self.assertEqual(redact("/signal/mcp/a/b?c"), "/signal/mcp/[redacted]/b?c")
        self.assertEqual(redact("the route /signal/mcp is there"), "the route /signal/mcp is there")

    def test_what_follows_bearer_is_replaced_and_plain_english_is_not(self) -> None:
        redact = Redactor(["known-secret"]).redact
        self.assertEqual(redact("Authorization: Bearer known-secret"), "Authorization: Bearer [redacted]")
        self.assertEqual(redact("authorization: bearer sk-123456789"), "authorization: bearer [redacted]")
        self.assertEqual(redact("Bearer authentication failed"), "Bearer authentication failed")

    def test_redacting_twice_changes_nothing_more(self) -> None:
        redactor = Redactor([SECRET])
        redactor.add_token(TOKEN)
        once = redactor.redact(f"{SECRET} Bearer {TOKEN} /signal/mcp/{TOKEN} Bearer abc12345678")
        self.assertEqual(redactor.redact(once), once)

    def test_ordinary_and_empty_text_is_left_as_it_is(self) -> None:
        for text in ("", "Nothing to see here.\n\tEven 'quoted' [redacted] text \ud83d"):
            self.assertEqual(Redactor([SECRET]).redact(text), text)


class TokenTests(SynchronousTestCase):
    def test_a_token_is_found_alone_and_inside_a_longer_word(self) -> None:
        redactor = Redactor()
        redactor.add_token(TOKEN)
        self.assertEqual(redactor.redact(f"token={TOKEN}."), "token=[redacted].")
        self.assertEqual(redactor.redact(f"xx{TOKEN}yy{TOKEN}"), "xx[redacted]yy[redacted]")

    def test_tokens_of_any_length_are_found_at_every_place_of_a_text(self) -> None:
        for length in (1, 2, 9, 15, 16, 43, 60):
            redactor = Redactor()
            token = (TOKEN + TOKEN)[-length:]
            redactor.add_token(token)
            for place in range(20):
                text = "!" * place + token
                self.assertEqual(redactor.redact(text), "!" * place + "[redacted]")
                self.assertEqual(redactor.redact(text + "!"), "!" * place + "[redacted]!")
                self.assertEqual(redactor.redact(text[:-1] + "!" + token[1:]), text[:-1] + "!" + token[1:])

    def test_a_token_that_shares_all_but_its_end_with_one_forgotten_is_still_found(self) -> None:
        redactor = Redactor()
        known = TOKEN[:-1] + "!"
        for token in (TOKEN, TOKEN, known):
            redactor.add_token(token)
        for token in (TOKEN, *(f"{number:043d}" for number in range(DEAD_TOKENS))):
            redactor.forget_token(token)
        self.assertEqual(redactor.redact(f"{TOKEN} {known}"), f"{TOKEN} [redacted]")
        self.assertEqual(redactor._pieces[len(TOKEN)].total(), 8 * len(redactor._tokens))

    def test_a_dead_token_is_still_replaced(self) -> None:
        redactor = Redactor()
        redactor.add_token(TOKEN)
        redactor.forget_token(TOKEN)
        self.assertEqual(redactor.redact(TOKEN), "[redacted]")

    def test_only_so_many_dead_tokens_are_remembered_and_no_living_one_is_lost(self) -> None:
        redactor = Redactor()
        redactor.add_token(TOKEN)
        tokens = [f"{number:043d}" for number in range(DEAD_TOKENS + 1)]
        for token in tokens:
            redactor.add_token(token)
            redactor.forget_token(token)
        self.assertEqual(redactor.redact(tokens[0]), tokens[0])
        self.assertEqual(redactor.redact(f"{tokens[1]} {tokens[-1]} {TOKEN}"), "[redacted] [redacted] [redacted]")
        self.assertEqual(len(redactor._tokens), DEAD_TOKENS + 1)
        self.assertEqual(redactor._pieces[len(TOKEN)].total(), 8 * len(redactor._tokens))
