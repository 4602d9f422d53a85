"""The options of archive, compact and verify, and what of them is refused before anything starts."""

from __future__ import annotations

from typing import Any

import pytest

from zenitmq.model.errors import ConfigError
from zenitmq.pipeline.jobs.archive import ArchiveOptions
from zenitmq.pipeline.jobs.compact import CompactOptions
from zenitmq.pipeline.jobs.verify import VerifyOptions

WITH_TOPIC: dict[str, Any] = {"topics": ("t",), "target": "/x"}


@pytest.mark.parametrize(
    ("options", "wrong", "key"),
    [
        (ArchiveOptions, {}, "target"),
        (ArchiveOptions, {"target": "/x"}, "topics"),
        (ArchiveOptions, WITH_TOPIC | {"pattern": "t.*"}, "topics"),
        (ArchiveOptions, WITH_TOPIC | {"target": "s3://x/y"}, "target"),
        (ArchiveOptions, WITH_TOPIC | {"starting": "yesterday"}, "starting"),
        (ArchiveOptions, WITH_TOPIC | {"starting": ""}, "starting"),
        (ArchiveOptions, WITH_TOPIC | {"target_file_mb": 0}, "target_file_mb"),
        (ArchiveOptions, WITH_TOPIC | {"on_corrupt": "ignore"}, "on_corrupt"),
        (CompactOptions, {}, "target"),
        (CompactOptions, {"target": "/x", "before": "today"}, "before"),
        (VerifyOptions, {}, "target"),
        (VerifyOptions, {"target": "hdfs://x/y"}, "target"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(options: Any, wrong: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        options(**wrong)
    assert refused.value.key == key


def test_where_a_new_archive_begins() -> None:
    assert ArchiveOptions(**WITH_TOPIC).starting_options() == {"startingOffsets": "earliest"}
    timed = ArchiveOptions(**WITH_TOPIC, starting="1763700000123").starting_options()
    assert timed["startingTimestamp"] == "1763700000123"
    by_pattern = ArchiveOptions(target="/x", pattern="t.*", namesrv="h:1")
    assert by_pattern.subscription() == {"subscribePattern": "t.*", "namesrv": "h:1"}
