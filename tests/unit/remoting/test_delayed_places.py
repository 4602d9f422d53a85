"""The payload of a SendDelayed's reply."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import RemoteProtocolError
from zenitmq.remoting.delayed_places import NOWHERE, Place, decode_places, encode_places

PLACES = [Place(1_700_000_000_000, NOWHERE, 4096), Place(NOWHERE, 7, 5000)]
BYTES = bytes.fromhex(
    "0000018bcfe56800 ffffffffffffffff 0000000000001000 ffffffffffffffff 0000000000000007 0000000000001388"
)


def test_both_directions() -> None:
    assert encode_places(PLACES) == BYTES
    assert decode_places(BYTES, 2) == PLACES
    assert decode_places(b"", 0) == []


@pytest.mark.parametrize(("payload", "count"), [(BYTES, 1), (BYTES, 3), (BYTES[:-1], 2), (b"", 1)])
def test_another_count_is_refused(payload: bytes, count: int) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_places(payload, count)
