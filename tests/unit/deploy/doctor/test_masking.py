"""What leaves the machine holds no secret."""

from __future__ import annotations

import pytest
import zmq

from zenitmq.deploy.doctor.masking import masked, masked_text
from zenitmq.model.clock import thread_cpu_ns

KEY = "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs"


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        (f"the key {KEY} was refused", "the key *** was refused"),
        (f'secret = "{KEY}"', "secret = ***"),
        ("password: hunter2 host=a", "password: *** host=a"),
        ("Authorization: Bearer abc.def host=a", "Authorization: *** host=a"),
        (f"refused key={KEY} address=a", "refused *** address=a"),
        (f"[({KEY})].", "***"),
        (f"{KEY}, the other", "***, the other"),
        ("redis://:you@host/1", "redis://***@host/1"),
        ("http://me:y@u@host/1", "http://***@host/1"),
        (r'{"told": "password=\"a b c\" x"}', r'{"told": "password=*** x"}'),
        (r'{"told": "{\"password\": \"a b c\"}"}', r'{"told": "{\"password\": ***}"}'),
        (r'password="a \" b" x', "password=*** x"),
        (
            "accessKey=a api-key=b pwd=c private_key=d passphrase=e",
            "accessKey=*** api-key=*** pwd=*** private_key=*** passphrase=***",
        ),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----\nx", "***\nx"),
        (
            "store_dir=/var/lib/Zenit/broker-a/consumequeue/topics",
            "store_dir=/var/lib/Zenit/broker-a/consumequeue/topics",
        ),
        ("http://me:you@host:1/path", "http://***@host:1/path"),
        ("ZENIT_ACCESS_KEY='a b'", "ZENIT_ACCESS_KEY=***"),
        ("e3b0c44298fc1c149afbf4c8996fb92427ae41e4", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4"),
        ("/var/lib/Zenit/broker-a/consumequeue/top", "/var/lib/Zenit/broker-a/consumequeue/top"),
        ("retention_bytes=5 key=orders:1", "retention_bytes=5 key=orders:1"),
    ],
)
def test_text(text: str, becomes: str) -> None:
    assert masked_text(text) == becomes


def test_each_key_is_masked() -> None:
    """Nearly a tenth of all keys have two slashes, as paths do."""
    keys = [zmq.curve_keypair()[1].decode() for _ in range(300)]
    assert [key for key in keys if key in masked_text(f"the key {key} was refused, key={key}")] == []


@pytest.mark.parametrize("part", ["a", "token", "a://", "K+", "password=", "\\"])
def test_a_long_line_takes_no_longer_than_its_length_says(part: str) -> None:
    begun_ns = thread_cpu_ns()
    masked_text(part * 50_000)
    assert thread_cpu_ns() - begun_ns < 2_000_000_000


def test_documents_are_masked_by_name_and_by_value() -> None:
    document = {
        "security.key": "/etc/zenit/a.key",
        "zookeeper_password": "x",
        "nested": [{"token": "t", "count": 3, "empty_secret": ""}, KEY, None, True],
        "tokens": ["t", {"of": "u", "count": 5}],
        KEY: 1,
    }
    assert masked(document) == {
        "security.key": "/etc/zenit/a.key",
        "zookeeper_password": "***",
        "nested": [{"token": "***", "count": 3, "empty_secret": ""}, "***", None, True],
        "tokens": ["***", {"of": "***", "count": 5}],
        "***": 1,
    }
