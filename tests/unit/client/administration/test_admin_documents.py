"""What brokers answer as JSON is an object, or the broker broke the protocol."""

from __future__ import annotations

import pytest

from zenitmq.client.administration.pipeline_calls import _document
from zenitmq.client.connection.documents import document_of
from zenitmq.model.errors import RemoteProtocolError


@pytest.mark.parametrize("read", [document_of, _document])
def test_an_answer_is_an_object(read) -> None:  # type: ignore[no-untyped-def]
    assert read(b'{"a": [1]}') == {"a": [1]}
    for payload in (b"", b"{", b"[]", b"\xff", b"[" * 100_000):
        with pytest.raises(RemoteProtocolError):
            read(payload)
