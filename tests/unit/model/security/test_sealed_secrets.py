"""Secrets as they are stored: opened by the key alone, and for their own user."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenitmq.model.errors import InvalidParameter
from zenitmq.model.security.principals import User, UserKind, check_user
from zenitmq.model.security.row_codec import decode_row, encode_row, row_of
from zenitmq.model.security.sealed_secrets import check_sealed, seal, unseal, without_secrets
from zenitmq.model.security.signatures import SECRET_LENGTH_MAX

KEY, OTHER = bytes(range(32)), bytes(32)
NONCE = b"n" * 16
GOLDEN = "bm5ubm5ubm5ubm5ubm5ubnWaBUrRN2bnN9qdInPsXae9vaU-5cos4Q"
SEALED = seal(KEY, "app", "12345678", NONCE)


def test_the_layout_stays() -> None:
    assert SEALED == GOLDEN
    assert unseal([KEY], "app", GOLDEN) == "12345678"


@given(st.text(min_size=1, max_size=SECRET_LENGTH_MAX).filter(str.isprintable), st.binary(min_size=16, max_size=16))
def test_what_is_sealed_is_opened_by_the_key_for_its_user(secret: str, nonce: bytes) -> None:
    sealed = seal(KEY, "app", secret, nonce)
    assert check_sealed(sealed) == sealed
    assert unseal([OTHER, KEY], "app", sealed) == secret
    assert unseal([OTHER], "app", sealed) is None
    assert unseal([KEY], "ap", sealed) is None
    assert unseal([], "app", sealed) is None
    user = check_user(User("app", (), secrets=(sealed,)))
    row = encode_row(row_of(user, 5))
    assert decode_row(row).value == user
    assert sealed not in without_secrets(row)
    assert decode_row(without_secrets(row).replace('["(sealed)"]', "[]")).name == "app"


@pytest.mark.parametrize(
    "row",
    [
        '{"fields":{"secrets":["a]PLAIN"]}}',
        '{"fields":{"secrets":"PLAIN"}}',
        '{"fields":{"secr\\u0065ts":["PLAIN"]}}',
        '{"fields":{"secrets":["PLAIN"]},"fields":{}}',
        '{"fields":[{"secrets":{"a":"PLAIN"}}]}',
        '{"secrets":["PLAIN"',
        '"PLAIN"',
        "[" * 100_000 + "PLAIN",
    ],
)
def test_however_a_secret_is_given_it_is_not_told(row: str) -> None:
    """The audit tells what was asked also if it is refused, as a secret that is not sealed is."""
    assert "PLAIN" not in without_secrets(row)


def test_a_row_without_secrets_is_told_as_it_is() -> None:
    row = encode_row(row_of(User("app", ())))
    assert without_secrets(row) == row


@given(st.integers(0, len(SEALED) - 1), st.sampled_from("AZaz09-_"))
def test_a_changed_one_opens_nothing(at: int, letter: str) -> None:
    changed = SEALED[:at] + letter + SEALED[at + 1 :]
    assert unseal([KEY], "app", changed) in ({"12345678"} if changed == SEALED else {None, "12345678"})
    if at < len(SEALED) - 1 and changed != SEALED:
        assert unseal([KEY], "app", changed) is None


@pytest.mark.parametrize("wrong", ["", "a", "x" * 42, "x" * 1000, "(sealed)" * 10, "é" * 50])
def test_what_is_no_sealed_secret_is_refused_or_opens_nothing(wrong: str) -> None:
    assert unseal([KEY], "app", wrong) is None
    with pytest.raises(InvalidParameter):
        check_sealed(wrong)


def test_a_user_has_two_and_a_server_none() -> None:
    with pytest.raises(InvalidParameter):
        check_user(User("app", (), secrets=(SEALED,) * 3))
    with pytest.raises(InvalidParameter):
        check_user(User("app", (), UserKind.SUPER, secrets=("x",)))
    with pytest.raises(ValueError, match="32"):
        seal(b"", "app", "x", NONCE)
