"""What the repr of a client says. Pure."""

from __future__ import annotations


def client_repr(client: object, state: str = "", **facts: object) -> str:
    """`<Producer group='orders' namesrv='127.0.0.1:9876' closed>`; facts that are None are left out."""
    parts = [f"{name}={fact!r}" for name, fact in facts.items() if fact is not None]
    return f"<{' '.join(part for part in (type(client).__name__, *parts, state) if part)}>"
