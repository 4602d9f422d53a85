"""What leaves the machine holds no secret."""

from __future__ import annotations

import pytest

from zenitmq.deploy.doctor.masking import masked, masked_text

KEY = "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs"


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        (f"the key {KEY} was refused", "the key *** was refused"),
        (f'secret = "{KEY}"', "secret = ***"),
        ("password: hunter2 host=a", "password: *** host=a"),
        ("Authorization: Bearer abc", "Authorization: *** abc"),
        ("http://me:you@host:1/path", "http://***@host:1/path"),
        ("ZENIT_ACCESS_KEY='a b'", "ZENIT_ACCESS_KEY=***"),
        ("e3b0c44298fc1c149afbf4c8996fb92427ae41e4", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4"),
        ("/var/lib/Zenit/broker-a/consumequeue/top", "/var/lib/Zenit/broker-a/consumequeue/top"),
        ("retention_bytes=5 key=orders:1", "retention_bytes=5 key=orders:1"),
    ],
)
def test_text(text: str, becomes: str) -> None:
    assert masked_text(text) == becomes


def test_documents_are_masked_by_name_and_by_value() -> None:
    document = {
        "security.key": "/etc/zenit/a.key",
        "zookeeper_password": "x",
        "nested": [{"token": "t", "count": 3, "empty_secret": ""}, KEY, None, True],
    }
    assert masked(document) == {
        "security.key": "/etc/zenit/a.key",
        "zookeeper_password": "***",
        "nested": [{"token": "***", "count": 3, "empty_secret": ""}, "***", None, True],
    }
