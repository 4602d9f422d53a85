"""What queries keep at a real broker: the first document, for everybody who asks and over a restart."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from zenitmq.model.errors import InvalidName, InvalidParameter, MessageIllegal, QueryOffsetsNotFound
from zenitmq.remoting import commands


def keep(broker: Any, query: str, document: Any) -> Any:
    return json.loads(broker.call(commands.KeepQueryOffsets(query), json.dumps(document).encode())[1])


def test_the_first_document_is_kept_until_it_is_dropped(broker: Any) -> None:
    with pytest.raises(QueryOffsetsNotFound):
        broker.ask(commands.GetQueryOffsets("q"))
    assert keep(broker, "q", {"n": 1}) == {"n": 1}
    assert keep(broker, "q", {"n": 2}) == {"n": 1}
    broker.restart()
    assert broker.ask(commands.GetQueryOffsets("q")) == {"n": 1}
    (listed,) = broker.ask(commands.GetQueries())["queries"]
    assert (listed["query"], listed["size_bytes"]) == ("q", 8)
    broker.call(commands.DropQueryOffsets("q"))
    with pytest.raises(QueryOffsetsNotFound):
        broker.call(commands.DropQueryOffsets("q"))
    assert keep(broker, "q", {"n": 3}) == {"n": 3}


def test_of_many_who_begin_at_once_one_is_believed_by_all(broker: Any) -> None:
    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda number=number: answers.append(keep(broker, "q", {"n": number})))
        for number in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(answers) == 16
    assert all(answer == answers[0] for answer in answers)


def test_what_is_no_query_or_no_document_is_refused(broker: Any) -> None:
    for query in ("", "x" * 256, "line\nbreak"):
        with pytest.raises(InvalidName):
            keep(broker, query, {})
    for document in ([], "text"):
        with pytest.raises(InvalidParameter):
            keep(broker, "q", document)
    with pytest.raises(InvalidParameter):
        broker.call(commands.KeepQueryOffsets("q"))
    with pytest.raises(MessageIllegal):
        keep(broker, "q", {"n": "x" * 140_000})  # more than the largest record of this broker
    assert broker.ask(commands.GetQueries()) == {"queries": []}
