"""No secret survives redaction, in any of the forms in which programs write texts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus

from hypothesis import assume, example, given
from hypothesis import strategies as st

from hivesub.redaction.redactor import MIN_SECRET_LENGTH, REDACTED, Redactor


def _lowered(escaped: str) -> str:
    return re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), escaped)


FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "JSON": lambda secret: json.dumps(secret)[1:-1],
    "JSON in UTF-8": lambda secret: json.dumps(secret, ensure_ascii=False)[1:-1],
    "JSON with its slashes escaped": lambda secret: json.dumps(secret)[1:-1].replace("/", "\\/"),
    "JSON in JSON": lambda secret: json.dumps(json.dumps(secret))[3:-3],
    "repr": lambda secret: repr(secret)[1:-1],
    "URL path": quote,
    "URL component": lambda secret: quote(secret, safe=""),
    "URL component, lower case": lambda secret: _lowered(quote(secret, safe="")),
    "form": quote_plus,
}
EVERYDAY = "abcXYZ019-_.~+/=:@ \"'\\%&?#é\t"

secrets = st.text(st.sampled_from(EVERYDAY) | st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
contexts = st.text(st.sampled_from(EVERYDAY + "\n{}<>"), max_size=30)


@given(
    secret=secrets,
    others=st.lists(secrets, max_size=3),
    written=st.lists(st.tuples(contexts, st.sampled_from(sorted(FORMS))), min_size=1, max_size=4),
    end=contexts,
)
@example(secret="ab/cd efgh", others=["ab/cd"], written=[("x", "form"), ("y", "URL path")], end="z")
def test_no_form_of_a_secret_survives(secret: str, others: list[str], written: list[tuple[str, str]], end: str) -> None:
    secret = secret.strip()
    assume(len(secret) >= MIN_SECRET_LENGTH)
    assume(not set(REDACTED[0] + REDACTED[-1]) & set(secret) and secret not in REDACTED)
    # One secret inside another, or over its edge, may take the other's place: what is left of it is no longer whole.
    text = "".join(before + FORMS[form](secret) for before, form in written) + end
    said = Redactor([secret, *others]).redact(text)
    for form, write in FORMS.items():
        assert write(secret) not in said, form


@given(token=st.text("abcXYZ019-_", min_size=43, max_size=43), before=contexts, after=contexts, dead=st.booleans())
def test_no_signal_token_survives(token: str, before: str, after: str, dead: bool) -> None:
    redactor = Redactor()
    redactor.add_token(token)
    if dead:
        redactor.forget_token(token)
    for text in (f"{before}{token}{after}", f"{before}http://127.0.0.1:1/signal/mcp/{token}{after}"):
        said = redactor.redact(text)
        assert token not in said
        assert REDACTED in said


@given(token=st.text("abcXYZ019-_", min_size=1, max_size=60), before=contexts)
def test_whatever_follows_the_signal_route_is_replaced_known_or_not(token: str, before: str) -> None:
    said = Redactor().redact(f"{before} http://h/signal/mcp/{token} ")
    assert said.endswith(f"/signal/mcp/{REDACTED} ")


@given(secrets, st.text(max_size=200))
def test_any_text_can_be_redacted_and_twice_is_as_good_as_once(secret: str, text: str) -> None:
    redactor = Redactor([secret])
    once = redactor.redact(text)
    assume(secret.strip() not in REDACTED)
    assert redactor.redact(once) == once
