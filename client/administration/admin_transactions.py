"""The administrator's calls about undecided transactions."""

from __future__ import annotations

from typing import Final

from ...model.errors import NoRoute, TransactionNotFound, ZenitError
from ...model.handles.transaction import Resolution, TransactionId
from ...model.names import check_group, check_topic
from ...model.queue import PhysicalOffset
from ...record.kernel import StoredMessage, decode_batch
from ...remoting.commands import DecideTransactions, GetTransactions, ViewMessage
from ..connection.argument_checks import check_count
from ..connection.documents import document_of
from ..sending.transactions.transaction_receipt import receipts_of
from .admin_calls import AdminCalls
from .admin_merge import Document

LISTED_AT_ONCE: Final = 200
LISTED_MAX: Final = 1000
TRANSACTIONS_MAX: Final = 1_000_000


class TransactionAdmin(AdminCalls):
    """Calls about transactions."""

    async def _transactions(
        self,
        *,
        topic: str | None = None,
        group: str | None = None,
        max_transactions: int = LISTED_MAX,
        timeout: float | None = None,
    ) -> list[Document]:
        """Transactions that are not decided, oldest first at each broker; of a topic, or a producer group, or all: at most
        `max_transactions`. [{transaction_id, topic, queue_id, group, message_id, state, checks, born_at_ms, age_ms, body_bytes,
        physical_offset, broker_name}]. `state`: "pending", the broker asks the producer group from time to time, as often as
        `checks` says so far; "parked", it asked often enough, and you decide. Raises InvalidName, InvalidParameter.
        """
        if topic is not None:
            check_topic(topic)
        if group is not None:
            check_group(group)
        check_count("max_transactions", max_transactions, 1, TRANSACTIONS_MAX)
        deadline_ms = self._deadline(timeout)
        found: list[Document] = []
        for broker_name, address in sorted((await self._masters(deadline_ms)).items()):
            begin: int | None = 0
            while begin is not None and len(found) < max_transactions:
                _, payload = await self._call(address, GetTransactions(begin, LISTED_AT_ONCE), deadline_ms)
                document = document_of(payload)
                found += [
                    {**row, "broker_name": broker_name}
                    for row in document["transactions"]
                    if topic in (None, row["topic"]) and group in (None, row["group"])
                ]
                begin = document["next"]
        return found[:max_transactions]

    async def _transaction(
        self, transaction_id: str, *, timeout: float | None = None
    ) -> tuple[Document, StoredMessage]:
        """(as `transactions` lists it, its waiting message) of an undecided transaction.

        Raises InvalidParameter, TransactionNotFound.
        """
        deadline_ms = self._deadline(timeout)
        which = TransactionId.parse(transaction_id)
        address = await self._master_of(which, deadline_ms)
        begin: int | None = which.half_offset  # later, if it was appended again
        while begin is not None:
            _, payload = await self._call(address, GetTransactions(begin, LISTED_AT_ONCE), deadline_ms)
            document = document_of(payload)
            for row in document["transactions"]:
                if row["transaction_id"] == transaction_id:
                    request = ViewMessage(PhysicalOffset(row["physical_offset"]))
                    _, payload = await self._call(address, request, deadline_ms)
                    return {**row, "broker_name": which.broker_name}, decode_batch(payload, which.broker_name)[0]
            begin = document["next"]
        raise TransactionNotFound(transaction_id)

    async def _commit_transaction(self, transaction_id: str, *, timeout: float | None = None) -> Document:
        """Consumers get the message, whoever sent it and whether it is parked or not. {transaction_id, state, queue_id,
        queue_offset, physical_offset}. Raises as TransactionProducer.commit does."""
        return await self._decide_transaction(transaction_id, Resolution.COMMIT, timeout)

    async def _rollback_transaction(self, transaction_id: str, *, timeout: float | None = None) -> Document:
        """Discards the message. Otherwise as `commit_transaction`."""
        return await self._decide_transaction(transaction_id, Resolution.ROLLBACK, timeout)

    async def _decide_transaction(self, text: str, resolution: Resolution, timeout: float | None) -> Document:
        deadline_ms = self._deadline(timeout)
        which = TransactionId.parse(text)
        address = await self._master_of(which, deadline_ms)
        request = DecideTransactions(((which.topic, text, resolution.value, -1),))
        reply, _ = await self._call(address, request, deadline_ms)
        (receipt,) = receipts_of(reply, [(which, which.encode())])
        if isinstance(receipt, ZenitError):
            raise receipt
        return {
            "transaction_id": text,
            "state": None if receipt.state is None else receipt.state.value,
            "queue_id": receipt.queue.queue_id,
            "queue_offset": receipt.queue_offset,
            "physical_offset": receipt.physical_offset,
        }

    async def _master_of(self, which: TransactionId, deadline_ms: int) -> str:
        address = (await self._masters(deadline_ms)).get(which.broker_name)
        if address is None:
            raise NoRoute(which.topic, f"{which.broker_name} has no master now")
        return address
