"""The copies of a query's offsets: each group of the cluster keeps one, so that no single one of them is needed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..model.errors import QueryOffsetsDiffer

Document = dict[str, Any]


def agreed(query: str, copies: Mapping[str, str | None]) -> str | None:
    """What the brokers that keep a copy agree on; None where none does. `copies`: by broker name, None = it keeps none.

    Raises QueryOffsetsDiffer.
    """
    kept = {name: text for name, text in copies.items() if text is not None}
    if len(set(kept.values())) > 1:
        raise QueryOffsetsDiffer(query, ", ".join(sorted(kept)))
    return next(iter(kept.values()), None)


def merge_queries(listed: Mapping[str, Iterable[Mapping[str, Any]]]) -> list[Document]:
    """[{query, kept_at_ms, size_bytes, brokers}] by query, of what each broker lists; kept_at_ms: of the first copy."""
    merged: dict[str, Document] = {}
    for broker_name, queries in sorted(listed.items()):
        for entry in queries:
            row = merged.setdefault(entry["query"], {**entry, "brokers": []})
            row["brokers"].append(broker_name)
            row["kept_at_ms"] = min(row["kept_at_ms"], entry["kept_at_ms"])
    return [merged[query] for query in sorted(merged)]
