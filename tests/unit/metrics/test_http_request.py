"""Heads of HTTP requests: what is answered, and with which status what is not."""

from __future__ import annotations

import pytest

from zenitmq.metrics.http_request import (
    HEAD_BYTES_MAX,
    BadHttpRequest,
    HttpRequest,
    decode_head,
    encode_answer_head,
)


def test_what_a_scrape_sends() -> None:
    head = b"GET /metrics/detail?topic=%25RETRY%25g&x= HTTP/1.1\r\nHost: a:1\r\nAccept: text/plain;q=0.5"
    query = {"topic": "%RETRY%g", "x": ""}
    assert decode_head(head) == HttpRequest("/metrics/detail", query, "text/plain;q=0.5", is_head=False)
    assert decode_head(b"HEAD / HTTP/1.0") == HttpRequest("/", {}, "", is_head=True)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"", 400),
        (b"GET", 400),
        (b"GET /", 400),
        (b"GET metrics HTTP/1.1", 400),
        (b"GET http://other/ HTTP/1.1", 400),
        (b"GET / x HTTP/1.1", 400),
        (b"GET /\x00 HTTP/1.1", 400),
        (b"GET /\xff HTTP/1.1", 400),
        (b"GET / HTTP/2", 505),
        (b"POST /metrics HTTP/1.1", 405),
        (b"get / HTTP/1.1", 405),
        (b"DELETE / HTTP/1.1", 405),
        (b"GET / HTTP/1.1\r\nno colon", 400),
        (b"GET / HTTP/1.1\r\n: empty", 400),
        (b"GET / HTTP/1.1\r\nHost : a", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\n folded", 400),
        (b"GET / HTTP/1.1\r\nHost: a\nb: c", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: 1", 400),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked", 400),
        (b"GET /?" + b"a=b&" * 9 + b" HTTP/1.1", 400),
        (b"GET /?a=%ff HTTP/1.1", 400),
        (b"GET / HTTP/1.1" + b"\r\na: b" * 65, 431),
        (b"GET /" + b"a" * HEAD_BYTES_MAX + b" HTTP/1.1", 431),
    ],
)
def test_what_is_not_answered_gets_the_status_that_says_why(head: bytes, status: int) -> None:
    with pytest.raises(BadHttpRequest) as refused:
        decode_head(head)
    assert refused.value.status == status
    assert refused.value.why
    assert encode_answer_head(status, "text/plain", 0).startswith(b"HTTP/1.1 %d " % status)


def test_the_head_of_an_answer() -> None:
    assert encode_answer_head(200, "text/plain", 3) == (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\nCache-Control: no-store\r\n"
        b"Connection: close\r\n\r\n"
    )


def test_a_token_is_taken_and_never_shown() -> None:
    request = decode_head(b"GET /metrics HTTP/1.1\r\nAuthorization: Bearer abc def ")
    assert request.authorization == "Bearer abc def"
    assert "abc" not in repr(request)
    assert b"\r\nWWW-Authenticate: Bearer\r\n" in encode_answer_head(401, "text/plain", 0)
