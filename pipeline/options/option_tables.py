"""The options of the format "zenit": names, defaults, meanings; for those who read them and for docs/pipeline.md. Pure.

Where Kafka's source has the same thing, the name is Kafka's.
"""

from __future__ import annotations

from typing import Final

from .option_values import Option

READ_OPTIONS: Final = (
    Option(
        "namesrv",
        "",
        "both",
        "name servers, `a:9876,b:9876`; without it, those that the `zenit` command would take",
    ),
    Option("subscribe", "", "both", "topics, separated by commas"),
    Option(
        "subscribePattern",
        "",
        "both",
        "a regular expression; topics whose whole name it matches, those made later too",
    ),
    Option("assign", "", "both", 'single queues, `{"orders": {"broker-a": [0, 1]}}`'),
    Option(
        "messageTypes",
        "normal",
        "both",
        "`normal`: the topics themselves; `retry`, `dlq`: what `group` is to get again, or gave up",
    ),
    Option("startingTimestamp", "", "both", "milliseconds since the epoch; before the two that follow"),
    Option(
        "startingOffsetsByTimestamp",
        "",
        "both",
        'such a time a queue, `{"orders": {"broker-a": {"0": 1760000000000}}}`',
    ),
    Option(
        "startingOffsets",
        "",
        "both",
        "`earliest` (a batch's default), `latest` (a stream's), or an offset a queue: -2 earliest, -1 latest",
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        "error",
        "both",
        "`error` or `latest`: where a queue has nothing from that time on",
    ),
    Option("endingTimestamp", "", "batch", "milliseconds since the epoch: what was stored before"),
    Option("endingOffsetsByTimestamp", "", "batch", "such a time a queue"),
    Option("endingOffsets", "latest", "batch", "`latest`, or an offset a queue: -1 latest"),
    Option("failOnDataLoss", "true", "both", "`false`: rows that expired are passed over, and counted in the log"),
    Option("tolerateUnavailable", "false", "stream", "`true`: while a broker is away, the others' queues are read"),
    Option(
        "maxOffsetsPerTrigger",
        "",
        "stream",
        "rows a batch, shared out in proportion; each queue that has any gives one at least",
    ),
    Option("maxBytesPerTrigger", "", "stream", "bytes a batch, reckoned from the size of each queue's next rows"),
    Option("minOffsetsPerTrigger", "", "stream", "wait for so many rows"),
    Option("maxTriggerDelay", "15m", "stream", "but no longer than that"),
    Option("minPartitions", "", "both", "at least so many tasks, where there are so many rows"),
    Option("maxRecordsPerPartition", "", "both", "at most so many rows a task"),
    Option("filter", "", "both", "a tag expression, `buy || sell`, evaluated at the broker"),
    Option(
        "sqlFilter",
        "",
        "both",
        "a condition on properties, `amount > 10 AND region = 'eu'`, evaluated at the broker",
    ),
    Option("columns", "", "both", "the columns wanted, separated by commas; all without it"),
    Option("includeBody", "true", "both", "`false`: without the column body, which is most of the bytes"),
    Option("includeProperties", "true", "both", "`false`: without the column properties"),
    Option("group", "", "both", "the group that the brokers see reading"),
    Option(
        "commitOffsets",
        "false",
        "stream",
        "`true`: tell the brokers how far `group` is, one batch late; for their lag tools only",
    ),
    Option("readFrom", "broker", "both", "`broker`: masters; `replica`: slaves where there are"),
    Option("fetchMaxBytes", "4m", "both", "bytes of one request to a broker"),
    Option("requestTimeoutMs", "30000", "both", "how long one question to a broker may take, over all its tries"),
    Option("retries", "30", "both", "how often it is asked again, within that time"),
    Option("queryName", "", "stream", "the name under which the brokers keep where the stream began; see Offsets"),
    Option(
        "pushdown",
        "false",
        "batch",
        "`true`: filters of the query are used to read less; needs the session's "
        "`spark.sql.python.filterPushdown.enabled`",
    ),
    Option(
        "onCorrupt",
        "fail",
        "both",
        "`fail`, or `quarantine`: damaged records are passed over, and counted in the log",
    ),
)

WRITE_OPTIONS: Final = (
    Option("namesrv", "", "both", "as of the source"),
    Option("topic", "", "both", "where rows go; without it, each row's column topic says so"),
    Option(
        "delivery",
        "at-least-once",
        "both",
        "`at-least-once`, or `dedup`: a batch that is written again changes nothing",
    ),
    Option("queryName", "", "both", "with dedup, who writes: needed for a batch, a stream has its own"),
    Option("batchId", "", "batch", "with dedup, which batch of theirs it is: the same number, the same rows"),
    Option(
        "routeBy",
        "group",
        "both",
        "`group`: rows of a message group go to one queue, in their order; `row`: each by its number in its task, so groups"
        " have no order",
    ),
    Option("requestTimeoutMs", "30000", "both", "how long one send may take, over all its tries"),
)
