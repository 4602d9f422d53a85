"""Writes reports as pages; a page is replaced completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ....model.clock import now_ms
from ....model.errors import ConfigError
from ...reports.html_report import Part, render
from ..job import Document
from .durable_files import write_whole


def check_page(key: str, path: str) -> None:
    """Checks before a job begins that a page can be written there; an empty path is fine. Raises ConfigError."""
    if not path:
        return
    directory = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path) or not os.access(directory, os.W_OK | os.X_OK):
        raise ConfigError(key, path, "a file in a directory that is there and may be written")


def write_page(path: str, title: str, parts: Iterable[Part]) -> Document:
    """Writes the page if one is wanted; returns {html: its path} for the summary, or {}. Raises OSError."""
    if not path:
        return {}
    whole = os.path.abspath(path)
    write_whole(whole, render(title, parts, made_at_ms=now_ms()).encode())
    return {"html": whole}
