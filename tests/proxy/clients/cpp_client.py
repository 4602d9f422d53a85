"""What RocketMQ's C++ client does, by its Python package: NAMESRV SCENARIO JSON; the last line it prints is what it saw."""

import json
import sys
import threading
import time

from rocketmq.client import Message, Producer, PushConsumer
from rocketmq.exceptions import RocketMQException


def message(topic, body, tags="", keys="", **properties):
    one = Message(topic)
    one.set_body(body)
    if tags:
        one.set_tags(tags)
    if keys:
        one.set_keys(keys)
    for name, value in properties.items():
        one.set_property(name, value)
    return one


def send(namesrv, asked):
    producer = Producer("cpp-sends")
    producer.set_namesrv_addr(namesrv)
    producer.start()
    topic = asked["topic"]
    receipts = [producer.send_sync(message(topic, "plain", "blue", "key-1", region="eu"))]
    receipts.append(producer.send_sync(message(topic, "x" * 50_000)))
    receipts += [producer.send_orderly(message(topic, f"ordered-{number}"), 3) for number in range(5)]
    delayed = message(topic, "delayed")
    delayed.set_delay_time_level(1)
    receipts.append(producer.send_sync(delayed))
    receipts.append(producer.send_batch([message(topic, f"batch-{number}") for number in range(5)]))
    producer.send_oneway(message(topic, "one-way"))
    time.sleep(0.3)
    producer.shutdown()
    return {
        "receipts": [{"status": int(one.status), "message_id": one.msg_id, "offset": one.offset} for one in receipts]
    }


def push(namesrv, asked):
    consumer = PushConsumer(asked["group"], orderly=asked.get("orderly", False))
    consumer.set_namesrv_addr(namesrv)
    found, is_all = [], threading.Event()

    def on_message(one):
        body = bytes(one.body)
        found.append(
            {
                "body": body.decode() if len(body) < 100 else f"long {len(body)}",
                "tags": bytes(one.tags).decode(),
                "queue": one.queue_id,
                "topic": one.topic,
            }
        )
        if len(found) >= asked["count"]:
            is_all.set()

    consumer.subscribe(asked["topic"], on_message, asked.get("tags", "*"))
    consumer.start()
    is_all.wait(asked.get("seconds", 60))
    time.sleep(0.2)
    consumer.shutdown()
    return {"messages": found}


def numbers(namesrv, topic):
    """Sends numbers until its input has a line, each until it is acknowledged, and tells which were."""
    producer = Producer("cpp-numbers")
    producer.set_namesrv_addr(namesrv)
    producer.start()
    is_over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), is_over.set()), daemon=True).start()
    number = 0
    while not is_over.is_set():
        try:
            producer.send_sync(message(topic, str(number)))
        except RocketMQException:
            time.sleep(0.1)
            continue
        print("acked", number, sep="\t", flush=True)
        number += 1
        time.sleep(0.002)
    producer.shutdown()


if __name__ == "__main__" and sys.argv[2] == "numbers":
    numbers(sys.argv[1], sys.argv[3].partition("=")[2])
elif __name__ == "__main__":
    seen = {"send": send, "push": push}[sys.argv[2]](sys.argv[1], json.loads(sys.argv[3]))
    sys.stdout.flush()
    print("\n" + json.dumps(seen), flush=True)
