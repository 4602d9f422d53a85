"""A load process: producers that number their messages, send at a rate, and record every acknowledgement.

    python -m zenitmq.deploy.drills.load        one JSON job (LoadJob) on standard input, then "stop" or its end

Each producer is a thread with its own sharding key, and so with one queue, and has one send in flight. A failed send is
repeated with the same messages until it is acknowledged or the run ends: a try whose reply was lost may store them twice,
but no message overtakes one with a lower number. Records go to a file (ledger.ACKNOWLEDGED) a few hundred rows at a time,
so memory does not grow with the run. Prints {"ready": true} after each producer's first acknowledgement, {"count": n,
"failure": text} now and then, {"sent": n, "tries_failed": n} at the end.
"""

from __future__ import annotations

import sys
import threading
import zlib
from dataclasses import dataclass
from typing import BinaryIO, Final

from ...client.producer import Producer
from ...model.clock import monotonic_ns, sleep_ms
from ...model.errors import MessageIllegal, MessageTooLarge, ZenitError
from ...model.message import Message, SendReceipt
from .job_process import Tell, main_of
from .ledger import ACKNOWLEDGED_ROW, Bodies, queue_number

SEND_TIMEOUT_S: Final = 3.0  # the client's default, so that a drill shows what users see
PAUSE_MS: Final = 5.0
"""After a send that used up its time, in addition to the client's own pauses."""

BEHIND_NS: Final = 100_000_000
"""A producer that falls further behind its schedule, as during a fault, continues from now and does not catch up."""

FLUSH_ROWS: Final = 400
REPORT_MS: Final = 250
HOPELESS: Final = (MessageTooLarge, MessageIllegal)
SWITCH_INTERVAL_S: Final = 0.0005


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadJob:
    """The job of one process. Producers are numbered from `first_producer`; `rate`: messages a second, all together.

    `batch`: messages per send; the first `singles` producers send one at a time, as often as the others. `groups`: the
    names of all replica groups, sorted. `is_keyed`: each try of each message has a key of its own.
    """

    namesrv: str
    topic: str
    run: int
    path: str
    first_producer: int = 0
    producers: int = 4
    rate: float = 1000.0
    batch: int = 1
    singles: int = 0
    body_bytes: int = 200
    groups: tuple[str, ...] = ()
    is_keyed: bool = False

    def batch_of(self, number: int) -> int:
        """Messages per send of that producer."""
        return 1 if number < self.first_producer + self.singles else self.batch

    @property
    def interval_ns(self) -> int:
        """The interval of a producer's sends, so that all producers together keep the rate."""
        messages = sum(map(self.batch_of, range(self.first_producer, self.first_producer + self.producers)))
        return int(1e9 * messages / self.rate)


class Journal:
    """The file of acknowledgements. Any thread; a row is written as a whole."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._rows: list[bytes] = []
        self.count = 0

    def add(self, rows: list[bytes]) -> None:
        """Adds rows; writes a few hundred of them at once."""
        with self._lock:
            self._rows += rows
            self.count += len(rows)
            if len(self._rows) >= FLUSH_ROWS:
                self._write()

    def close(self) -> None:
        """Writes the rest."""
        with self._lock:
            self._write()

    def _write(self) -> None:
        self._file.write(b"".join(self._rows))
        self._file.flush()
        self._rows.clear()


class NumberedProducer:
    """One producer, whose `run` is run by a thread of its own."""

    def __init__(self, job: LoadJob, number: int, producer: Producer, journal: Journal, stop: threading.Event) -> None:
        self._job, self._number, self._producer = job, number, producer
        self._journal, self._stop = journal, stop
        self._bodies = Bodies(job.run, number, job.body_bytes)
        self._groups = list(job.groups)
        self.is_ready = threading.Event()
        self.sent = 0
        self.tries_failed = self._tries = 0
        self.failure = ""  # why it is not making progress, while it is not

    def run(self) -> None:
        """Sends on schedule until it is stopped."""
        interval_ns = self._job.interval_ns
        due_ns = monotonic_ns() + interval_ns * (self._number % self._job.producers) // self._job.producers
        while not self._stop.is_set():
            wait_ns = due_ns - monotonic_ns()
            if wait_ns > 0:
                sleep_ms(wait_ns / 1e6)
            elif wait_ns < -BEHIND_NS:
                due_ns = monotonic_ns()
            due_ns += interval_ns
            if not self._send():
                return
            self.is_ready.set()

    def _send(self) -> bool:
        """Sends the next messages until they are acknowledged; False if the run ended before."""
        numbers = range(self.sent, self.sent + self._job.batch_of(self._number))
        while True:
            self._tries += 1
            messages = [self._message(number) for number in numbers]
            try:
                receipts = self._producer.send_batch(
                    messages, sharding_key=f"producer-{self._number}", timeout=SEND_TIMEOUT_S
                )
            except HOPELESS as error:
                self.failure = str(error)
                return False
            except ZenitError as error:
                self.tries_failed += 1
                self.failure = str(error)
                if self._stop.is_set():
                    return False
                sleep_ms(PAUSE_MS)
                continue
            time_ns = monotonic_ns()
            self.failure = ""
            self._journal.add(
                [self._row(*pair, time_ns) for pair in zip(receipts, zip(numbers, messages, strict=True), strict=True)]
            )
            self.sent = numbers.stop
            return True

    def _message(self, number: int) -> Message:
        keys = [f"{self._number}-{number}-{self._tries}"] if self._job.is_keyed else ()
        return Message(self._job.topic, self._bodies.make(number), keys=keys)

    def _row(self, receipt: SendReceipt, sent: tuple[int, Message], time_ns: int) -> bytes:
        number, message = sent
        return ACKNOWLEDGED_ROW.pack(
            number,
            receipt.queue_offset,
            receipt.physical_offset,
            time_ns,
            zlib.crc32(message.body),
            self._number,
            queue_number(self._groups.index(receipt.queue.broker_name), receipt.queue.queue_id),
        )


def work(job: LoadJob, tell: Tell, stop: threading.Event) -> None:
    """Runs the producers until `stop`; reports progress."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with open(job.path, "wb") as file, Producer("DRILL", namesrv=job.namesrv, compression=None) as producer:
        journal = Journal(file)
        numbers = range(job.first_producer, job.first_producer + job.producers)
        runners = [NumberedProducer(job, number, producer, journal, stop) for number in numbers]
        threads = [threading.Thread(target=runner.run) for runner in runners]
        for thread in threads:
            thread.start()
        is_told = False
        while not stop.wait(REPORT_MS / 1000):
            if not is_told and all(runner.is_ready.is_set() for runner in runners):
                is_told = True
                tell({"ready": True})
            failure = next((runner.failure for runner in runners if runner.failure), "")
            tell({"count": journal.count, "failure": failure})
        for thread in threads:
            thread.join()
        journal.close()
        tell({"sent": journal.count, "tries_failed": sum(runner.tries_failed for runner in runners)})


if __name__ == "__main__":
    sys.exit(main_of(LoadJob, work))
