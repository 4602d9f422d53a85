"""Questions to a client, and answers that come, come late, or do not come."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from zenitmq.model.errors import BrokerBusy, ConnectionLost, InvalidParameter, RequestTimeout
from zenitmq.proxy.schema import enum_value, message_class
from zenitmq.proxy.v2 import questions
from zenitmq.proxy.v2.questions import OPEN_MAX, Questions

TelemetryCommand = message_class("TelemetryCommand")


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def nonce_of(command: Any) -> str:
    return str(command.print_thread_stack_trace_command.nonce)


def test_an_answer_is_that_of_its_question() -> None:
    told: list[Any] = []

    async def work() -> None:
        asked = Questions(told.append, "")
        tasks = [asyncio.create_task(asked.thread_stacks()) for _ in range(2)]
        await asyncio.sleep(0)
        for command, text in zip(reversed(told), ("second", "first"), strict=True):
            answer = TelemetryCommand()
            answer.status.code = enum_value("Code", "OK")
            answer.thread_stack_trace.nonce = nonce_of(command)
            answer.thread_stack_trace.thread_stack_trace = text
            asked.on_answer(nonce_of(command), answer)
            asked.on_answer(nonce_of(command), answer)
        asked.on_answer("another", answer)
        assert await asyncio.gather(*tasks) == ["first", "second"]

    run(work())


def test_a_client_that_cannot_says_so() -> None:
    async def work() -> None:
        def tell(command: Any) -> None:
            answer = TelemetryCommand()
            answer.status.code = enum_value("Code", "NOT_IMPLEMENTED")
            asked.on_answer(nonce_of(command), answer)

        asked = Questions(tell, "")
        with pytest.raises(InvalidParameter):
            await asked.thread_stacks()

    run(work())


def test_who_waits_is_told_of_the_end_and_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "ANSWER_MS", 1)

    async def work() -> None:
        asked = Questions(lambda _: None, "")
        tasks = [asyncio.create_task(asked.thread_stacks()) for _ in range(OPEN_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(BrokerBusy):
            await asked.thread_stacks()
        asked.give_up()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {ConnectionLost}
        with pytest.raises(RequestTimeout):
            await asked.thread_stacks()

    run(work())
