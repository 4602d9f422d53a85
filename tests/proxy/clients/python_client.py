"""RocketMQ's own Python client (rocketmq-python-client from PyPI), as the tests run it: in its own environment, unchanged.

    python python_client.py ENDPOINTS SCENARIO JSON

Prints one JSON document: what the scenario saw.
"""

import json
import sys
import threading
import time

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)

ENDPOINTS, SCENARIO, ASKED = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
CONFIG = ClientConfiguration(ENDPOINTS, Credentials(ASKED.get("key", ""), ASKED.get("secret", "")))


class Checker(TransactionChecker):
    """Commits what the body says is to be committed."""

    def __init__(self):
        self.asked = []

    def check(self, message):
        self.asked.append(message.body.decode())
        return TransactionResolution.COMMIT if message.body.startswith(b"commit") else TransactionResolution.ROLLBACK


CHECKER = Checker()


def message(topic, body, **fields):
    one = Message()
    one.topic, one.body = topic, body
    for name, value in fields.items():
        if name == "properties":
            for key, text in value.items():
                one.add_property(key, text)
        else:
            setattr(one, name, value)
    return one


def told(one):
    return {
        "body": one.body.decode(),
        "message_id": one.message_id,
        "tag": one.tag,
        "keys": sorted(one.keys),
        "properties": one.properties,
        "group": one.message_group,
        "attempt": one.delivery_attempt,
        "type": one.message_type,
        "corrupted": one.corrupted,
        "at_ms": int(time.time() * 1000),
        "delivery_ms": one.delivery_timestamp,
    }


def producer(*topics):
    made = Producer(CONFIG, topics, CHECKER)
    made.startup()
    return made


def send():
    """Sends of each kind, and what they were answered."""
    sender, receipts = producer(ASKED["topic"]), []
    for one in ASKED["messages"]:
        body = one.pop("body").encode()
        if "in_s" in one:
            one["delivery_timestamp"] = int(time.time() + one.pop("in_s"))
        receipt = sender.send(message(ASKED["topic"], body, **one))
        receipts.append(
            {"message_id": receipt.message_id, "offset": receipt.offset, "recall_handle": receipt.recall_handle}
        )
    recalled = [sender.recall_message(ASKED["topic"], receipts[at]["recall_handle"]) for at in ASKED.get("recalls", ())]
    sender.shutdown()
    return {"receipts": receipts, "recalled": recalled}


def send_on():
    """Sends one after the other for some seconds; which bodies were answered."""
    sender, sent, failed, longest, end = producer(ASKED["topic"]), [], [], 0.0, time.time() + ASKED["seconds"]
    number = 0
    print("begun", flush=True)
    while time.time() < end:
        body, begun = f"n{number}", time.time()
        number += 1
        try:
            sender.send(message(ASKED["topic"], body.encode()))
            sent.append(body)
        except Exception as error:  # noqa: BLE001
            failed.append(str(error)[:200])
            time.sleep(0.02)
        longest = max(longest, time.time() - begun)
    sender.shutdown()
    return {"sent": sent, "failed": failed, "longest_ms": int(longest * 1000)}


def transactions():
    """Half messages: committed, rolled back, and left to the check."""
    sender = producer(ASKED["topic"])
    for body in ASKED["bodies"]:
        transaction = sender.begin_transaction()
        sender.send(message(ASKED["topic"], body.encode()), transaction)
        if body.startswith("commit now"):
            transaction.commit()
        elif body.startswith("rollback now"):
            transaction.rollback()
    until = time.time() + ASKED["seconds"]
    while len(CHECKER.asked) < ASKED["checks"] and time.time() < until:
        time.sleep(0.05)
    time.sleep(0.3)  # the answers to the checks
    sender.shutdown()
    return {"asked": CHECKER.asked}


def simple():
    """Receives until it has so many messages, and does with each what is asked."""
    consumer = SimpleConsumer(
        CONFIG, ASKED["group"], {ASKED["topic"]: FilterExpression(ASKED.get("filter", "*"))}, ASKED.get("wait", 5)
    )
    consumer.startup()
    found, until = [], time.time() + ASKED["seconds"]
    while len(found) < ASKED["count"] and time.time() < until:
        for one in consumer.receive(ASKED.get("batch", 32), ASKED.get("invisible", 20)):
            found.append(told(one))
            if ASKED.get("change") is not None and one.delivery_attempt == 1:
                consumer.change_invisible_duration(one, ASKED["change"])
            elif not ASKED.get("keeps"):
                consumer.ack(one)
    empty_s = None
    if ASKED.get("then_empty"):
        begun = time.time()
        assert not consumer.receive(32, 20)
        empty_s = time.time() - begun
    consumer.shutdown()
    return {"messages": found, "empty_s": empty_s}


def drain():
    """Receives and acknowledges for some seconds; what of was answered."""
    consumer = SimpleConsumer(CONFIG, ASKED["group"], {ASKED["topic"]: FilterExpression("*")}, 2)
    consumer.startup()
    found, acked, failed, end = [], [], [], time.time() + ASKED["seconds"]
    print("begun", flush=True)
    while time.time() < end:
        try:
            for one in consumer.receive(32, 5):
                found.append(one.body.decode())
                consumer.ack(one)
                acked.append(one.body.decode())
        except Exception as error:  # noqa: BLE001
            failed.append(str(error)[:200])
            time.sleep(0.05)
    return {"found": found, "acked": acked, "failed": failed}


class Listener(MessageListener):
    """Handles messages, some of them with a failure first."""

    def __init__(self):
        self.lock, self.found, self.done = threading.Lock(), [], threading.Event()

    def consume(self, one):
        with self.lock:
            self.found.append(told(one))
            fails = one.body.startswith(b"fail") and one.delivery_attempt <= ASKED.get("fails", 0)
            if len(self.found) >= ASKED["count"]:
                self.done.set()
        return ConsumeResult.FAILURE if fails else ConsumeResult.SUCCESS


def push():
    """A push consumer until it has been handed so many messages."""
    listener = Listener()
    consumer = PushConsumer(
        CONFIG, ASKED["group"], listener, {ASKED["topic"]: FilterExpression(ASKED.get("filter", "*"))}
    )
    consumer.startup()
    print("begun", flush=True)
    listener.done.wait(ASKED["seconds"])
    time.sleep(ASKED.get("rest", 0.3))
    consumer.shutdown()
    return {"messages": listener.found}


print(json.dumps(globals()[SCENARIO]()), flush=True)
sys.stdout.flush()
import os  # noqa: E402

os._exit(0)
