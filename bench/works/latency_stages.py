"""The document's `stages` of `latency`: the stages of trips, and what each thread used, with shares of the raw round trip."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..percentiles import Nanoseconds
from ..trips.thread_times import IO_THREAD, MAIN, Times, used
from ..trips.trip_stages import (
    CLIENT_SEND,
    RAW_TRIP,
    SERVER_DISPATCH,
    SERVER_PLACE,
    SERVER_SEND,
    SERVER_WRITE,
    TRIP,
    after_reply_us,
    call_us,
    chains,
    shares,
    stage_us,
    thread_us,
    usual_call_us,
)

_RECEIVES = (5, 6)  # of a broker's calls: the next request, and its payload
_FLUSH = 7  # the replies of a turn go out


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTimes:
    """Threads of a server before and after the run, and its stamps."""

    before: Times
    after: Times
    stamps: Nanoseconds


def taken_stamps(path: str) -> Any:
    """What a process saved; removes the file."""
    found = np.load(path)
    loaded = dict(found) if isinstance(found, np.lib.npyio.NpzFile) else found
    os.unlink(path)
    return loaded


def stages_document(
    facts: Mapping[str, Any], client: Mapping[str, Nanoseconds], broker: ServerTimes, raw: ServerTimes, in_flight: int
) -> dict[str, Any]:
    """`facts`: the result of the load's process; `client`: what it saved."""
    requests, raw_requests = int(facts["messages"]), int(facts["raw_messages"])
    document: dict[str, Any] = {}
    if in_flight == 1:
        trips = chains(client["trips"], TRIP, {"client": client["client"], "server": broker.stamps})
        raw_trips = chains(client["raw_trips"], RAW_TRIP, {"client": client["raw_client"], "server": raw.stamps})
        stages, raw_stages = stage_us(trips, TRIP), stage_us(raw_trips, RAW_TRIP)
        raw_us = round(sum(raw_stages.values()), 1)
        document["us"] = stages | {"all": round(sum(stages.values()), 1)}
        document["raw_us"] = raw_stages | {"all": raw_us}
        document["hand_overs_us"] = {
            "client": usual_call_us(client["client"], CLIENT_SEND),
            "broker": usual_call_us(broker.stamps, _FLUSH),
            "raw client": usual_call_us(client["raw_client"], CLIENT_SEND),
            "raw server": usual_call_us(raw.stamps, SERVER_SEND),
        }
        document["after_reply_us"] = {"broker: queues and index follow": after_reply_us(trips, broker.stamps)}
        document["trips"] = {"shown": len(trips), "raw": len(raw_trips)}
    else:
        raw_us = float(facts["raw_seconds"]) * 1e6 / max(raw_requests, 1)
        stages = _loop_us(facts, broker, requests)
        document["us"] = stages
        document["raw_us"] = {"all": round(raw_us, 2)}
    document["share_of_raw"] = shares(document["us"], raw_us)
    document["threads_us"] = {
        "client": thread_us(facts["main"][0], requests),
        "client's I/O": thread_us(facts["io"], requests),
        "broker's I/O": thread_us(used(broker.before, broker.after, name=IO_THREAD), requests),
        "broker's loop": thread_us(used(broker.before, broker.after, name=MAIN), requests),
    }
    document["raw_threads_us"] = {
        "client": thread_us(facts["main"][1], raw_requests),
        "client's I/O": thread_us(facts["raw_io"], raw_requests),
        "server's I/O": thread_us(used(raw.before, raw.after, name=IO_THREAD), raw_requests),
        "server's loop": thread_us(used(raw.before, raw.after, name=MAIN), raw_requests),
    }
    return document


def _loop_us(facts: Mapping[str, Any], broker: ServerTimes, requests: int) -> dict[str, float]:
    """The loop's own stages; what is left of its CPU time is the decoding of requests, encoding of replies, and timers."""
    names = {
        "broker: receive": _RECEIVES[0],
        "broker: receive the payload": _RECEIVES[1],
        "broker: check, stamp, place": SERVER_PLACE,
        "broker: write": SERVER_WRITE,
        "broker: hand-over to the network": _FLUSH,
        "broker: queues and index follow": SERVER_DISPATCH,
    }
    stages = call_us(broker.stamps, names, begin=int(facts["begin_ns"]), end=int(facts["end_ns"]), requests=requests)
    whole = used(broker.before, broker.after, name=MAIN)[0] / max(requests, 1) / 1000
    stages["broker: decode, encode the reply, the rest"] = round(max(0.0, whole - sum(stages.values())), 2)
    stages["broker: its loop in all"] = round(whole, 2)
    stages["all"] = round(float(facts["seconds"]) * 1e6 / max(requests, 1), 2)
    return stages
