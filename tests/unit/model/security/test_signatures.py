"""What RocketMQ's clients sign, and who is believed."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import InvalidParameter
from zenitmq.model.security.signatures import check_secret, is_signed, parse_signature, signature_of, signed_content

FIELDS = {
    "topic": "orders",
    "queueId": "3",
    "AccessKey": "RocketMQ",
    "properties": "KEYS\x01o-17\x02",
    "consumerGroup": "général",
}
GOLDEN = [  # of AclSigner.calSignature and AclUtils.combineRequestContent, RocketMQ 5.5.0
    ("12345678", b"", "beQgVA0KNM4WtCe68fj2DEn3WWU="),
    ("12345678", b"20231127T001536Z", "zqp0E1nXEOqwpfq3sCwJfCtQUEw="),
    ("12345678", signed_content(FIELDS, b"hello"), "KbfYmfR103zy89YtIuJGEyi5JKs="),
    ("géheim-中", signed_content(FIELDS | {"Signature": "x"}, b""), "RerkDGhFMl90utLNk3UIaeD4lfw="),
]


@pytest.mark.parametrize(("secret", "content", "signature"), GOLDEN)
def test_signatures_are_those_of_rocketmqs_own_signer(secret: str, content: bytes, signature: str) -> None:
    assert is_signed(secret, content, signature)
    digits = signature_of(secret, content).hex()
    assert is_signed(secret, content, digits)
    assert is_signed(secret, content, digits.upper())
    assert not is_signed(secret + "x", content, signature)
    assert not is_signed(secret, content + b"x", signature)


def test_the_content_is_the_values_in_the_order_of_their_names_and_the_body() -> None:
    assert signed_content(FIELDS, b"hello").hex() == (
        "526f636b65744d5167c3a96ec3a972616c4b455953016f2d313702336f726465727368656c6c6f"
    )
    assert signed_content({"b": "2", "a": "1", "B": "3", "\U00010000": "4", "\uffff": "5"}, b"") == b"31245"


@pytest.mark.parametrize(
    "wrong", ["", "x", "=" * 28, "g" * 40, "zqp0E1nXEOqwpfq3sCwJfCtQUEw", "é" * 28, "ab " * 13 + "a", "ab" * 19 + "é9"]
)
def test_what_is_no_signature_is_none(wrong: str) -> None:
    assert parse_signature(wrong) is None
    assert not is_signed("12345678", b"", wrong)


@pytest.mark.parametrize("wrong", ["", "short", "x" * 129, "a\nbcdefgh"])
def test_a_secret_that_is_refused_is_not_repeated(wrong: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        check_secret(wrong)
    assert not wrong or wrong not in str(refused.value)
    assert check_secret("12345678") == "12345678"
