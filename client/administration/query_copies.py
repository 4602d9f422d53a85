"""The copies of a query's offsets: each group of the cluster stores one, so no single group must be up. Pure.

A document may have a version (member `version`, 0 if absent). The highest counts: a copy of a lower version is outdated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...model.errors import QueryOffsetsDiffer
from ...remoting.commands.document_version import version_of

Document = dict[str, Any]


def agreed(query: str, copies: Mapping[str, str | None]) -> str | None:
    """The document on which the brokers with the highest version agree; None if no broker has one.

    `copies`: by broker name, None = it has none. Raises QueryOffsetsDiffer.
    """
    kept = {name: text for name, text in copies.items() if text is not None}
    versions = {text: version_of(text) for text in kept.values()}
    newest = {name: text for name, text in kept.items() if versions[text] == max(versions.values())}
    if len(set(newest.values())) > 1:
        raise QueryOffsetsDiffer(query, ", ".join(sorted(newest)))
    return next(iter(newest.values()), None)


def is_behind(text: str | None, wanted: str) -> bool:
    """Whether a broker with this copy (None: it has none) still needs the wanted document."""
    return text is None or version_of(text) < version_of(wanted)


def merge_queries(listed: Mapping[str, Iterable[Mapping[str, Any]]]) -> list[Document]:
    """[{query, kept_at_ms, size_bytes, version, brokers}] by query, from each broker's list.

    `kept_at_ms`: of the first copy; `version`: of the newest, absent if a broker of an older version does not report it.
    """
    merged: dict[str, Document] = {}
    for broker_name, queries in sorted(listed.items()):
        for entry in queries:
            row = merged.setdefault(entry["query"], {**entry, "brokers": []})
            row["brokers"].append(broker_name)
            row["kept_at_ms"] = min(row["kept_at_ms"], entry["kept_at_ms"])
            if "version" in row and "version" in entry:
                row["version"] = max(row["version"], entry["version"])
            else:
                row.pop("version", None)
    return [merged[query] for query in sorted(merged)]
