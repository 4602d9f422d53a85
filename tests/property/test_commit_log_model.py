"""Random lives of a commit log against a plain dictionary of what was appended where."""

import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st

from zenitmq.model.errors import MessageTooLarge
from zenitmq.store.log.commit_log import CommitLog

SEGMENT = 1_024
DEADLINE_MS = 20_000
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.integers(1, SEGMENT), min_size=1, max_size=3)),
        st.tuples(st.just("flush"), st.none()),
        st.tuples(st.just("remove"), st.integers(0, 20 * SEGMENT)),
        st.tuples(st.just("reopen"), st.booleans()),
        st.tuples(st.just("cut"), st.integers(0, 10)),
    ),
    min_size=5,
    max_size=60,
)


def open_log(directory: str) -> CommitLog:
    return CommitLog(
        directory, segment_bytes=SEGMENT, preallocate_segments=1, recycle_segments=1, flush_interval_ms=DEADLINE_MS
    )


@settings(max_examples=150)
@given(steps=STEPS)
def test_a_log_holds_what_was_appended(steps):
    with tempfile.TemporaryDirectory() as directory:
        log = open_log(directory)
        log.start()
        appended: dict[int, bytes] = {}
        try:
            for number, (step, value) in enumerate(steps):
                if step == "append":
                    views = [bytes([number % 250 + 1]) * size for size in value]
                    size = sum(value)
                    try:
                        at = log.place(size)
                    except MessageTooLarge:
                        assert size > SEGMENT - 8
                        continue
                    assert log.append(views) == at
                    assert at // SEGMENT == (at + size + 7) // SEGMENT
                    appended[at] = b"".join(views)
                elif step == "flush":
                    log.wait_flushed(log.written, DEADLINE_MS)
                elif step == "remove":
                    flushed = log.flushed
                    for segment in log.remove_before(value):
                        assert segment.end_offset <= min(value, flushed)
                    appended = {at: data for at, data in appended.items() if at >= log.begin}
                else:
                    end = log.written
                    log.close()
                    log = open_log(directory)
                    if step == "cut" and appended:
                        end = sorted(appended)[-1 - value % len(appended)]
                        appended = {at: data for at, data in appended.items() if at < end}
                        log.truncate(end)
                    else:
                        log.truncate(end, wipe_bytes=0 if value else None)
                    log.start()
                assert log.begin <= log.flushed <= log.written
                for at, data in appended.items():
                    assert log.view(at, at + len(data)) == data
                if appended:
                    last = max(appended)
                    assert log.written >= last + len(appended[last])
            log.checksums.write_out()
            entries = {entry.offset: entry.length for entry in log.checksums.entries(log.begin, log.written)}
            assert {at: len(data) for at, data in appended.items()}.items() <= entries.items()
        finally:
            log.close()
