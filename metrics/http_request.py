"""The head of an HTTP request, as far as a port for scrapes needs it: GET and HEAD, no body. Pure.

    GET /metrics/detail?topic=trades HTTP/1.1\\r\\n
    Accept: text/plain\\r\\n
    \\r\\n

What is anything else gets the status that says so. A head has at most HEAD_BYTES_MAX bytes and HEADERS_MAX lines.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final
from urllib.parse import parse_qsl

from ..model.plain_dataclass import dataclass

HEAD_BYTES_MAX: Final = 8_192
HEADERS_MAX: Final = 64
PARAMETERS_MAX: Final = 8
END: Final = b"\r\n\r\n"
METHODS: Final = ("GET", "HEAD")
REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}


class BadHttpRequest(Exception):
    """A request that this port does not answer. `status`: the number of HTTP that says so. It is never on our own wire."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(status, why)
        self.status = status
        self.why = why


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """`path`: without the query. `accept`, `authorization`: the headers, "" where there is none."""

    path: str
    query: dict[str, str]
    accept: str
    is_head: bool
    authorization: str = field(default="", repr=False)


def decode_head(head: bytes) -> HttpRequest:
    """Decodes the bytes before END. Raises BadHttpRequest."""
    if len(head) > HEAD_BYTES_MAX:
        raise BadHttpRequest(431, f"a head of at most {HEAD_BYTES_MAX} bytes")
    try:
        lines = head.decode("ascii").split("\r\n")
    except UnicodeDecodeError as error:
        raise BadHttpRequest(400, "a head that is not ASCII") from error
    parts = lines[0].split(" ")
    if len(parts) != 3 or not parts[1].startswith("/") or not lines[0].isprintable():
        raise BadHttpRequest(400, "METHOD /path HTTP/1.1 is expected")
    method, target, version = parts
    if version not in ("HTTP/1.0", "HTTP/1.1"):
        raise BadHttpRequest(505, "HTTP/1.0 or HTTP/1.1 is expected")
    if method not in METHODS:
        raise BadHttpRequest(405, "GET or HEAD is expected")
    if len(lines) - 1 > HEADERS_MAX:
        raise BadHttpRequest(431, f"at most {HEADERS_MAX} headers")
    headers = dict(_header(line) for line in lines[1:])
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        raise BadHttpRequest(400, "a request without a body is expected")
    path, _, query = target.partition("?")
    return HttpRequest(
        path, _parameters(query), headers.get("accept", ""), method == "HEAD", headers.get("authorization", "")
    )


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not name or name != name.strip() or not line.replace("\t", " ").isprintable():
        raise BadHttpRequest(400, "a header is name: value")
    return name.lower(), value.strip()


def _parameters(query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=PARAMETERS_MAX, errors="strict"))
    except ValueError as error:
        raise BadHttpRequest(400, f"at most {PARAMETERS_MAX} parameters, in UTF-8") from error


def encode_answer_head(status: int, content_type: str, size_bytes: int) -> bytes:
    """The head of an answer; the connection ends behind its body."""
    asks = ("WWW-Authenticate: Bearer",) if status == 401 else ()
    lines = (
        f"HTTP/1.1 {status} {REASONS[status]}",
        f"Content-Type: {content_type}",
        f"Content-Length: {size_bytes}",
        "Cache-Control: no-store",
        "Connection: close",
        *asks,
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")
