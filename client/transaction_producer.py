"""The transaction producer: consumers get its message if, and only if, a local transaction was committed.

`send` stores the message where no consumer sees it, runs the local transaction, and tells the broker its outcome. If the
producer dies in between, the broker asks any producer of the group; its `check` looks in the place where the local
transaction would have left its results. So either both the message and the local transaction take effect, or neither does.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable
from itertools import count
from math import ceil
from types import TracebackType
from typing import Any, Final, Self

from ..model.errors import InvalidParameter, OutcomeUnknown, ZenitError
from ..model.handles.transaction import Resolution, TransactionId
from ..model.message import Message
from ..model.properties import CHECK_IMMUNITY_SECONDS, HALF_SENDER
from ..record.kernel import StoredMessage
from ..remoting.commands import CheckTransaction
from .connection.argument_checks import check_count, milliseconds
from .connection.connection import Connection
from .connection.waiting import Blocking, Waits, blocking
from .producer import SEND_TIMEOUT_S, ProducerCore
from .sending.attempts import SendAttempts
from .sending.delayed_send import is_delayed
from .sending.latency_fault import LatencyTable
from .sending.outgoing import COMPRESS_OVER_BYTES
from .sending.transactions.half_attempts import half_attempts
from .sending.transactions.transaction_checks import TransactionChecks
from .sending.transactions.transaction_receipt import TransactionReceipt as TransactionReceipt
from .sending.transactions.transaction_sends import TransactionSends

log = logging.getLogger(__name__)

CHECK_WORKERS: Final = 4
CHECK_WORKERS_MAX: Final = 64


class TransactionProducerCore(ProducerCore):
    """A transaction producer without its way of waiting; see ProducerCore."""

    _is_of_transactions = True

    def __init__(
        self,
        group: str,
        check: Callable[[StoredMessage], Any],
        *,
        namesrv: str | None = None,
        key: str | None = None,
        timeout: float = SEND_TIMEOUT_S,
        retries: int | None = None,
        compression: str | None = "lz4",
        compress_over_bytes: int = COMPRESS_OVER_BYTES,
        latency_fault: str | LatencyTable | None = "rocketmq-5",
        check_workers: int = CHECK_WORKERS,
        trace: bool | str = False,
    ) -> None:
        """`check(message)` returns the outcome of a message's local transaction, a Resolution.

        It is asked about messages of any producer of the group, so it must look in a place that all of them can read,
        usually a database. An exception counts as UNKNOWN: the broker asks again, every 30 s, 15 times; then an operator
        decides (`zenit transaction`). At most `check_workers` (1 to 64) calls run at a time.

        `timeout`: seconds for all tries, of storing the message and again of deciding it. The others are those of Producer.

        Raises InvalidName or InvalidParameter. Connects at once, so that brokers can ask.
        """
        if not callable(check):
            raise InvalidParameter("check", type(check).__name__, "a function of a message that returns a Resolution")
        check_count("check_workers", check_workers, 1, CHECK_WORKERS_MAX)
        super().__init__(
            group,
            namesrv=namesrv,
            key=key,
            timeout=timeout,
            retries=retries,
            compression=compression,
            compress_over_bytes=compress_over_bytes,
            latency_fault=latency_fault,
            trace=trace,
        )
        self._user_check = check
        self._serials = count(1)
        self._sends = TransactionSends(
            self.group, self._waits, self._waited, self._compress_over, in_context=self._in_context
        )
        self._checks = TransactionChecks(
            self._connection, self._waits, self._on_check, self._on_resolved, workers=check_workers
        )
        self._connection.members.join(self._member, on_reply=self._requests.on_reply, on_check=self._checks.on_check)
        self._checks.look()

    def _new_attempts(self, *, idempotent: bool) -> SendAttempts:  # noqa: ARG002  # they always are
        return half_attempts()

    @abstractmethod
    async def _call(self, function: Callable[..., Any], argument: object) -> object:
        """Runs the user's code."""

    # ---- transactions

    async def _send_transaction(
        self,
        message: Message,
        execute: Callable[[Message], Any],
        *,
        sharding_key: str | None = None,
        timeout: float | None = None,
        check_after: float | None = None,
    ) -> TransactionReceipt:
        """Stores the message hidden, runs the local transaction `execute(message)`, and decides by its result.

        The result is Resolution.COMMIT, ROLLBACK, or UNKNOWN (the broker asks `check`).

        `timeout`: seconds for all tries of storing, and again of deciding; None = the producer's. `check_after`: seconds
        before the broker may ask `check`, rounded up to whole ones; None = the broker's setting, 6 s. An exception of
        `execute` is raised and decides nothing: the broker asks `check`. If the message cannot be stored, `execute` is not
        run. Raises as Producer.send does; TransactionDecided if it was decided otherwise before (`execute` took too long).
        """
        if not callable(execute):
            raise InvalidParameter("execute", repr(execute)[:64], "a function of the message that returns a Resolution")
        own, sender = self._own_properties(check_after)
        with self._checks.under_way(sender):
            which, receipt = await self._store_half(own, message, sharding_key, timeout)
            return await self._execute(which, receipt, message, execute, timeout)

    async def _execute(
        self,
        which: TransactionId,
        receipt: TransactionReceipt,
        message: Message,
        execute: Callable[[Message], Any],
        timeout: float | None,
    ) -> TransactionReceipt:
        told = Resolution.UNKNOWN
        try:
            resolution = await self._call(execute, message)
            if not isinstance(resolution, Resolution):
                raise InvalidParameter(
                    "execute", repr(resolution), "a function that returns a Resolution; check decides now"
                )
            if resolution is Resolution.UNKNOWN:
                return receipt
            ended = await self._end_sent(which, receipt, resolution, timeout)
            if ended.state is not None:
                told = resolution
            return ended
        finally:
            self._trace_end(receipt.transaction_id, told, message)

    async def _end_sent(
        self, which: TransactionId, receipt: TransactionReceipt, resolution: Resolution, timeout: float | None
    ) -> TransactionReceipt:
        """Decides the transaction after `execute`. Returns the unchanged receipt if the broker does not answer."""
        self._check_usable()
        try:
            return await self._sends.end(which, receipt.transaction_id, resolution, -1, self._total_ms(timeout))
        except ZenitError as error:
            if not error.retriable and not isinstance(error, OutcomeUnknown):
                raise
            log.warning(
                "a transaction's end was not answered, the broker asks later message=%s error=%s",
                *(receipt.message_id, error),
            )
            return receipt

    async def _begin_transaction(
        self,
        message: Message,
        *,
        sharding_key: str | None = None,
        timeout: float | None = None,
        check_after: float | None = None,
    ) -> TransactionReceipt:
        """Stores the message hidden; `commit` or `rollback` decides it, else the broker asks `check`, after 6 s or
        `check_after`.

        Raises as `send` does.
        """
        own, sender = self._own_properties(check_after)
        with self._checks.under_way(sender):
            return (await self._store_half(own, message, sharding_key, timeout))[1]

    def _own_properties(self, check_after: float | None) -> tuple[dict[str, str], str]:
        """The additional properties of a half message, and the name of its send. Raises InvalidParameter."""
        sender = f"{self._member.client_id}/{next(self._serials)}"
        own = {HALF_SENDER: sender}
        if check_after is not None:
            own[CHECK_IMMUNITY_SECONDS] = str(ceil(milliseconds("check_after", check_after) / 1000))
        return own, sender

    async def _store_half(
        self, own: dict[str, str], message: Message, sharding_key: str | None, timeout: float | None
    ) -> tuple[TransactionId, TransactionReceipt]:
        if isinstance(message, Message) and is_delayed(message):
            raise InvalidParameter("message", "delayed", "one without a delay: it is delivered once it is committed")
        self._check_usable()
        sent = await self._sends.store(message, sharding_key, own, self._total_ms(timeout))
        if sent.physical_offset < 0:
            raise OutcomeUnknown(str(sent.queue), "it was stored by an earlier try, the broker cannot tell where")
        which = TransactionId(sent.queue.broker_name, message.topic, int(sent.physical_offset), sent.message_id)
        return which, TransactionReceipt(which.encode(), sent.message_id, sent.queue)

    async def _commit(
        self, transaction: TransactionReceipt | str, *, timeout: float | None = None
    ) -> TransactionReceipt:
        """Consumers get the message. `transaction`: what `begin` returned, or its transaction_id. A repeated call does
        nothing more.

        Raises TransactionDecided if it is not committed and no longer can be, TransactionNotFound, TopicNotFound, and the
        error of the last try.
        """
        return await self._end_named(transaction, Resolution.COMMIT, timeout)

    async def _rollback(
        self, transaction: TransactionReceipt | str, *, timeout: float | None = None
    ) -> TransactionReceipt:
        """Nobody gets the message. Otherwise like `commit`."""
        return await self._end_named(transaction, Resolution.ROLLBACK, timeout)

    async def _end_named(
        self, transaction: TransactionReceipt | str, resolution: Resolution, timeout: float | None
    ) -> TransactionReceipt:
        ended = await self._end_transaction(transaction, resolution, timeout=timeout)
        self._trace_end(ended.transaction_id, resolution)
        return ended

    def _trace_end(
        self,
        transaction_id: str,
        resolution: Resolution,
        message: Message | StoredMessage | None = None,
        *,
        from_check: bool = False,
    ) -> None:
        """`message`: None if only the name of the transaction is known."""
        if self._trace is not None:
            tags, keys = ("", ()) if message is None else (message.tags or "", message.keys)
            self._trace.on_transaction_ended(
                TransactionId.parse(transaction_id), resolution, tags=tags, keys=" ".join(keys), from_check=from_check
            )

    async def _end_transaction(
        self,
        transaction: TransactionReceipt | str,
        resolution: Resolution,
        *,
        timeout: float | None = None,
        half_offset: int = -1,
    ) -> TransactionReceipt:
        text = transaction.transaction_id if isinstance(transaction, TransactionReceipt) else transaction
        if not isinstance(text, str):
            raise InvalidParameter("transaction", type(text).__name__, "what begin returned, or its transaction_id")
        which = TransactionId.parse(text)
        self._check_usable()
        return await self._sends.end(which, text, resolution, half_offset, self._total_ms(timeout))

    async def _on_check(self, message: StoredMessage) -> object:
        return await self._call(self._user_check, message)

    async def _on_resolved(self, request: CheckTransaction, message: StoredMessage, resolution: Resolution) -> None:
        if resolution is not Resolution.UNKNOWN:
            await self._end_transaction(request.transaction_id, resolution, half_offset=request.half_offset)
        self._trace_end(request.transaction_id, resolution, message, from_check=True)

    async def _close(self, timeout: float | None = None) -> None:
        """Closes the connection; idempotent.

        Undecided transactions stay undecided: brokers ask any other producer of the group.
        """
        self._checks.close()
        await super()._close(timeout)


class TransactionProducer(TransactionProducerCore):
    """Sends messages together with a local transaction.

    One object serves all threads of a process; a forked child needs its own.
    """

    _keeps_batches = False

    send = blocking(TransactionProducerCore._send_transaction)
    begin = blocking(TransactionProducerCore._begin_transaction)
    commit = blocking(TransactionProducerCore._commit)
    rollback = blocking(TransactionProducerCore._rollback)
    close = blocking(TransactionProducerCore._close)

    def _new_waits(self, connection: Connection) -> Waits:
        return Blocking(connection.remoting)

    async def _call(self, function: Callable[..., Any], argument: object) -> object:
        return function(argument)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except ZenitError as failure:
            if error is None:
                raise
            log.warning("closing a transaction producer failed error=%s", failure)
