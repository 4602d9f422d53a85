"""Checks that a file passed a topic completely: compares its lines with the output of `zenit consume`.

    python -m zenitmq.deploy.line_check FILE CONSUMED        exit 0: the same lines, each queue in order; 1: not, and why

A topic keeps order only within each queue, so "completely" means: the same lines the same number of times, and the lines of
each queue in the order of the file. With one queue that is the file itself, byte for byte.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LineComparison:
    """The result. `problem` is "" if everything came through completely."""

    lines: int
    bytes: int
    queues: int
    problem: str = ""


def compare(sent: Sequence[bytes], consumed: Iterable[tuple[int, bytes]]) -> LineComparison:
    """Compares the lines of a file with (queue id, body) in the order of consumption."""
    by_queue: dict[int, list[bytes]] = defaultdict(list)
    for queue_id, body in consumed:
        by_queue[queue_id].append(body)
    came = Counter(body for bodies in by_queue.values() for body in bodies)
    facts = (len(sent), sum(map(len, sent)), len(by_queue))
    missing, extra = Counter(sent) - came, came - Counter(sent)
    if missing or extra:
        example = next(iter(missing or extra))
        text = f"{missing.total()} lines missing, {extra.total()} too many; one of them: {example[:80]!r}"
        return LineComparison(*facts, text)
    for queue_id, bodies in sorted(by_queue.items()):
        if not _in_order(bodies, sent):
            return LineComparison(*facts, f"queue {queue_id} is out of order")
    return LineComparison(*facts)


def _in_order(part: Iterable[bytes], whole: Iterable[bytes]) -> bool:
    """Whether `part` is `whole` with some lines left out."""
    remaining = iter(whole)
    return all(line in remaining for line in part)


def split_lines(data: bytes) -> list[bytes]:
    """The lines as `zenit produce` sends them: without their line breaks, including a last one without a break."""
    lines = data.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


def main(arguments: Sequence[str]) -> int:
    """Prints one line; returns the exit code."""
    file, printed = arguments
    with open(file, "rb") as source, open(printed, "rb") as result:
        sent = split_lines(source.read())
        consumed = [(int(line.partition(b" ")[0]), line.partition(b" ")[2]) for line in split_lines(result.read())]
    found = compare(sent, consumed)
    verdict = found.problem or "the same lines, each queue in order"
    sys.stdout.write(f"{file}: {found.lines} lines, {found.bytes} bytes, {found.queues} queues: {verdict}\n")
    return 1 if found.problem else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
