"""No thread and no task waits without a deadline, but those below, each with the reason why it may.

What counts: a call that can wait for something which may never come, where no deadline is given: none, `None` or -1 is said,
or it is a parameter of the function that may be None. A plain `with lock` does not count: nobody waits where it holds one.
Nor does a request: its `timeout_ms` has no default.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
OURS: Final = (
    "bench broker cli client controller deploy metrics model namesrv pipeline proxy remoting store testing".split()
)

MAY_WAIT: Final[dict[str, tuple[str, ...]]] = {
    "without a timeout as long as the batches or the request are tried: those have deadlines": (
        "client/sending/backlog.py Backlog.wait_empty: asyncio.wait",
        "client/sending/batch_sender.py BatchSender._wait_for: changed.wait",
        "client/sending/request_reply.py ReplyFuture.exception: exception",
        "client/sending/request_reply.py ReplyFuture.result: result",
        "client/sending/send_future.py BatchOutcome.wait_settled: gate.acquire",
        "pipeline/writing/send_lanes.py TaskLanes._take_oldest: result",
        "pipeline/writing/send_lanes.py TaskLanes.abandon: exception",
    ),
    "a request ends at its own deadline, a signal where its maker's ends: None is said by those in this list alone": (
        "client/aio/event_loop.py LoopSignal.wait: await",
        "client/aio/event_loop.py OnLoop.call: await",
        "client/connection/waiting.py _ThreadSignal.wait: self._not_yet.acquire",
    ),
    "it is done, or just made and free: nothing to wait for": (
        "cli/commands/messages/produce.py _sender.send.on_done: future.exception",
        "client/aio/event_loop.py LoopSignal.wait: self._come.result",
        "proxy/back/overdue.py Overdue.wait: answered.result",
        "proxy/back/recent_answers.py _retrieve: task.exception",
        "proxy/back/sends.py Sends._answers_of: item.answered.exception",
        "deploy/canary.py Canary._on_sent: future.exception",
        "client/sending/request_reply.py RequestReply._on_sent: send.exception",
        "client/connection/waiting.py _ThreadSignal.__init__: self._not_yet.acquire",
        "store/compaction/compaction.py Compaction._end_run: future.exception",
        "pipeline/writing/sink.py Writing.run: TaskContext.get",
    ),
    "as `with lock`; of -1 the calling thread's own connection, which no other uses": (
        "client/connection/waiting.py take: lock.acquire",
        "remoting/sync_calls.py SyncConnection.close: self._lock.acquire",
    ),
    "the user's: a handler, or what is typed or piped in": (
        "cli/commands/messages/request.py request: sys.stdin.buffer.read",
        "client/aio/push_consumer.py PushConsumer._handle: await",
        "client/aio/transaction_producer.py TransactionProducer._call: await",
    ),
    "a worker between messages, which work or the consumer's end wakes": (
        "client/consuming/push/work.py PushWork._wait_ready: ready.wait",
    ),
    "a socket that has a timeout or was polled, or whose peer is in the same process": (
        "cli/bench/hostile_peers.py knock: peer.recv",
        "cli/bench/hostile_peers.py recorded_handshake.take: between.accept",
        "cli/bench/hostile_peers.py recorded_handshake.take: peer.recv",
        "cli/bench/secured_pairs.py bare_round_trip_us: parent.recv",
    ),
    "a thread between questions, which its process's end wakes": (
        "remoting/security/curve_socket.py ServerSecurity._answer: self._questions.recv_multipart",
    ),
    "the work of a combiner, whose requests have deadlines": (
        "client/aio/event_loop.py OnLoop.to_its_end: await",
        "client/connection/waiting.py Blocking.to_its_end: await",
    ),
    "a worker between pieces of work, and the end of the store, which waits for its work": (
        "store/worker_threads.py WorkerThreads.shutdown: thread.join",
        "store/worker_threads.py _serve: waiting.get",
    ),
    "the end of a connection, which has a deadline": ("client/aio/event_loop.py OnLoop.run_apart: asyncio.to_thread",),
    "the end of a child of multiprocessing: it waits for its threads, as Python does": (
        "client/connection/program_end.py _end_child: join",
    ),
    "the system's resolver has deadlines of its own": (
        "client/connection/connection.py local_ip_towards: socket.getaddrinfo",
        "remoting/base_socket.py resolve: system_socket.getaddrinfo",
        "remoting/addresses.py own_address: socket.getaddrinfo",
        "proxy/service.py _check_host: socket.getaddrinfo",
        "proxy/tcp_server.py _address_of: socket.getaddrinfo",
        "remoting/examination/reach.py _connecting: socket.getaddrinfo",
    ),
    "with NOBLOCK or DONTWAIT, after RCVTIMEO was set, or the further frames of a message, which come together": (
        "deploy/embedded_zookeeper.py is_serving: connection.recv",
        "remoting/client_socket.py Dealer.__init__: self._socket.recv",
        "remoting/direct/direct_dealer.py DirectDealer.__init__: self._socket.recv",
        "remoting/direct/direct_router.py DirectRouter._accept: self._listener.accept",
        "remoting/direct/direct_router.py DirectRouter._read: peer.socket.recv",
        "remoting/direct/direct_router.py DirectRouter._read: peer.socket.recv_into",
        "remoting/raw_socket.py RawDealer._receive: self._socket.recv",
        "remoting/raw_socket.py RawDealer.receive_payload: self._socket.recv",
        "remoting/raw_socket.py RawRouter.drain: self._socket.recv",
        "remoting/raw_socket.py RawRouter.drain: self._socket.recv_into",
        "remoting/server_socket.py RouterSocket.__init__: self._socket.recv",
    ),
    "a thread of ours that was told to end, or its work on our files: as long as the disk takes": (
        "store/log/allocator.py Allocator.close: self._thread.join",
        "store/log/commit_log.py CommitLog.close: self._beside.shutdown",
        "store/log/commit_log.py CommitLog.sync_to: vouching.result",
        "store/log/flusher.py Flusher.close: self._thread.join",
        "broker/group/beginning_anew.py BeginningSearch.close: self._copying.shutdown",
        "store/upkeep.py Upkeep.close: self._worker.shutdown",
        "store/compaction/compaction.py Compaction.close: self._worker.shutdown",
        "deploy/backup/digest.py Digest.close: self._thread.shutdown",
        "deploy/backup/verify.py ObjectReader.close: self._threads.shutdown",
        "store/upkeep.py Upkeep.forget_remembered_confirm: result",
    ),
    "a benchmark's or drill's worker: its parent speaks, or by its end closes the pipe": (
        "bench/proxy/classic_load.py _send_all: asyncio.to_thread",
        "bench/proxy/grpc_load.py _run.all_of_it: asyncio.to_thread",
        "bench/proxy/hostile_load.py _annoy: asyncio.to_thread",
        "bench/proxy/servers.py serve_bare.serve: ends.wait",
        "deploy/drills/deliveries/load.py work: thread.join",
        "deploy/drills/job_process.py main_of.listen: sys.stdin.readline",
        "deploy/drills/job_process.py main_of: sys.stdin.readline",
        "deploy/drills/load.py work: thread.join",
    ),
    "a benchmark or drill whose process or stream ends by itself, is ended by a timer, or was killed": (
        "bench/scale/many_queues.py _open_after_kill: subprocess.run",
        "deploy/drills/campaigns/campaign_run.py _run_drill: for line in process.stderr",
        "deploy/drills/campaigns/campaign_run.py _run_drill: process.communicate",
        "deploy/drills/campaigns/campaign_run.py _run_drill: process.wait",
        "deploy/drills/load_processes.py Child.kill: self._process.wait",
        "pipeline/reports/measure.py _stream: query.awaitTermination",
    ),
    "a socket that does not block": (
        "metrics/http_server.py HttpServer._receive: visit.socket.recv",
        "metrics/http_server.py HttpServer._send: visit.socket.shutdown",
        "remoting/direct/direct_router.py _shut: ended.shutdown",
        "metrics/http_server.py HttpServer._take_new: self._listener.accept",
        "proxy/client_links.py LinkServer._first_byte: connected.recv",
        "proxy/client_links.py LinkServer.accept: door.listening.accept",
    ),
    "`asyncio.wait_for` or `asyncio.timeout` around it has the deadline, or the timer that many waits share": (
        "cli/top/screen.py show_live: pressed.get",
        "proxy/back/overdue.py Overdue.wait: await",
        "proxy/client_links.py LinkServer._first_byte: await",
        "proxy/back/send_turns.py SendTurn.reached: await",
        "proxy/back/users.py Users._find: await",
        "proxy/tcp_server.py RemotingLink.ask: await",
        "proxy/v2/questions.py Questions._ask: await",
    ),
    "a client's stream, which ends with its connection; connections of clients that are gone end by themselves": (
        "proxy/grpc_server.py GrpcLink._commands: await",
        "proxy/grpc_server.py GrpcLink.write: await",
        "proxy/v2/sessions.py Session.finish: asyncio.wait",
    ),
    "the whole of a proxy's process, until it is told to stop": ("proxy/service.py Proxy._serve: self._stopping.wait",),
    "ps waits for nothing": (
        "deploy/processes.py _birth_by_ps: subprocess.run",
        "deploy/processes.py _parents: subprocess.run",
    ),
}
"""By reason: the file, the function, and what waits there."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def named(call: ast.Call, *names: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg in names), None)


def is_given(value: ast.expr | None, optional: frozenset[str]) -> bool:
    """Whether this is a deadline in any case. `optional`: names that may be None."""
    if value is None:
        return False
    constants = [node.value for node in ast.walk(value) if isinstance(node, ast.Constant)]
    if None in constants or any(isinstance(node, ast.USub) for node in ast.walk(value)):
        return False
    return not (isinstance(value, ast.Name) and value.id in optional)


def receiver(call: ast.Call) -> str:
    return ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def deadline_at(place: int) -> Callable[[ast.Call, frozenset[str]], bool]:
    """Of a call that takes its deadline as that argument, or by name."""

    def waits(call: ast.Call, optional: frozenset[str]) -> bool:
        at = call.args[place] if len(call.args) > place else None
        return not is_given(named(call, "timeout", "timeout_ms") or at, optional)

    return waits


def without_arguments(call: ast.Call, _: frozenset[str]) -> bool:
    """Of a call that means something else, or has a deadline, where it takes anything at all (`str.join`, `dict.get`)."""
    return not call.args and not call.keywords


def waits_for_event(call: ast.Call, optional: frozenset[str]) -> bool:
    return deadline_at(1 if receiver(call) == "asyncio" else 0)(call, optional)


def waits_for_lock(call: ast.Call, optional: frozenset[str]) -> bool:
    return named(call, "blocking") is None and deadline_at(1)(call, optional)


def waits_for_socket(call: ast.Call, _: frozenset[str]) -> bool:
    return "NOBLOCK" not in ast.unparse(call)


def waits_for_file_lock(call: ast.Call, _: frozenset[str]) -> bool:
    return "LOCK_NB" not in ast.unparse(call)


def waits_for_poll(call: ast.Call, optional: frozenset[str]) -> bool:
    is_process = "process" in receiver(call)  # Popen.poll looks and returns
    return receiver(call) != "select" and not is_process and deadline_at(0)(call, optional)


def waits_for_selected(call: ast.Call, optional: frozenset[str]) -> bool:
    """`select.select`, or a selector's; other things that select take more."""
    if receiver(call) == "select":
        return deadline_at(3)(call, optional)
    return "selector" in receiver(call) and len(call.args) < 2 and deadline_at(0)(call, optional)


def waits_for_program(call: ast.Call, optional: frozenset[str]) -> bool:
    return receiver(call) == "subprocess" and deadline_at(99)(call, optional)


def waits_for_pipe(call: ast.Call, _: frozenset[str]) -> bool:
    return any(name in receiver(call) for name in ("stdin", "stdout", "stderr"))


def waits_for_end(call: ast.Call, _: frozenset[str]) -> bool:
    return "WNOHANG" not in ast.unparse(call) and "wait=False" not in ast.unparse(call)


HANDED_ON: Final = frozenset({"recv", "recv_multipart", "recv_into", "acquire"})
"""What waits where it is called by another name: found where it is named."""

ALWAYS: Final = ("getaddrinfo", "to_thread", "run_in_executor", "sigwait", "processAllAvailable", "input", "accept")

WAITS: Final[dict[str, Callable[[ast.Call, frozenset[str]], bool]]] = {
    "wait": waits_for_event,
    "wait_for": deadline_at(1),
    "awaitTermination": deadline_at(0),
    "communicate": deadline_at(1),
    "acquire": waits_for_lock,
    "poll": waits_for_poll,
    "select": waits_for_selected,
    "urlopen": deadline_at(2),
    "create_connection": deadline_at(1),
    **dict.fromkeys(("run", "call", "check_call", "check_output"), waits_for_program),
    **dict.fromkeys(("join", "get"), without_arguments),
    **dict.fromkeys(("result", "exception"), deadline_at(0)),
    **dict.fromkeys(("recv", "recv_multipart", "recv_into", "recvfrom"), waits_for_socket),
    **dict.fromkeys(("flock", "lockf"), waits_for_file_lock),
    **dict.fromkeys(("read", "readline", "readlines"), waits_for_pipe),
    **dict.fromkeys(("shutdown", "waitpid", "waitid"), waits_for_end),
    **dict.fromkeys(ALWAYS, lambda _call, _optional: True),
}


def optional_parameters(function: Function) -> frozenset[str]:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return frozenset(each.arg for each in every if each.annotation and "None" in ast.unparse(each.annotation))


def places(node: ast.AST, inside: str = "", optional: frozenset[str] = frozenset()) -> Iterator[str]:
    """ "function: what waits" of each wait without a deadline below a node."""
    called = node.func if isinstance(node, ast.Call) else None
    for child in ast.iter_child_nodes(node):
        within, may_be_none = inside, optional
        if isinstance(child, ast.ClassDef | Function):
            within = f"{inside}.{child.name}".lstrip(".")
            may_be_none = optional_parameters(child) if isinstance(child, Function) else frozenset()
        if is_handed_on(child) and child is not called:
            yield f"{inside}: {ast.unparse(child)}"
        elif isinstance(child, ast.Call) and is_wait(child, optional):
            is_plain = all(
                isinstance(part, ast.Name | ast.Attribute | ast.expr_context) for part in ast.walk(child.func)
            )
            yield f"{inside}: {ast.unparse(child.func) if is_plain else last_name(child)}"
        elif isinstance(child, ast.Await) and not isinstance(child.value, ast.Call):
            yield f"{inside}: await"
        elif isinstance(child, ast.For) and ast.unparse(child.iter).endswith((".stdin", ".stdout", ".stderr")):
            yield f"{inside}: for {ast.unparse(child.target)} in {ast.unparse(child.iter)}"
        yield from places(child, within, may_be_none)


def last_name(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def is_wait(call: ast.Call, optional: frozenset[str]) -> bool:
    name = last_name(call)
    return name in WAITS and WAITS[name](call, optional)


def is_handed_on(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node.attr in HANDED_ON


def test_what_waits_without_a_deadline_is_listed_with_its_reason() -> None:
    found = {
        f"{path.relative_to(ROOT).as_posix()} {place}"
        for folder in OURS
        for path in (ROOT / folder).rglob("*.py")
        for place in places(ast.parse(path.read_text(encoding="utf-8")))
    }
    listed = {place for reason in MAY_WAIT.values() for place in reason}
    assert sorted(found - listed) == [], "give it a deadline, or a reason here"
    assert sorted(listed - found) == [], "no such wait any more"


@pytest.mark.parametrize(
    "source",
    [
        "event.wait()",
        "event.wait(None)",
        "event.wait(timeout=None)",
        "event.wait(None if left is None else left)",
        "condition.wait_for(is_done)",
        "await asyncio.wait(tasks)",
        "await asyncio.wait_for(answer, None)",
        "await answer",
        "thread.join()",
        "queue.get()",
        "future.result()",
        "lock.acquire()",
        "lock.acquire(timeout=-1)",
        "gate = lock.acquire",
        "socket.recv()",
        "receive = self._socket.recv",
        "poller.poll()",
        "selector.select()",
        "select.select(readers, (), ())",
        "process.wait()",
        "process.communicate()",
        "subprocess.run(command, check=True)",
        "for line in process.stdout:\n    print(line)",
        "sys.stdin.readline()",
        "fcntl.flock(file, fcntl.LOCK_EX)",
        "executor.shutdown()",
        "query.awaitTermination()",
        "def f(timeout: float | None) -> None:\n    event.wait(timeout)",
        "async def f(self, *, timeout_ms: int | None = None) -> None:\n    await signal.wait(timeout_ms)",
    ],
)
def test_a_wait_without_a_deadline_is_seen(source: str) -> None:
    """The list above can fail."""
    assert list(places(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "event.wait(0.5)",
        "event.wait(timeout=left_ms / 1000)",
        "await asyncio.wait(tasks, timeout=1)",
        "thread.join(5)",
        "','.join(names)",
        "names.get(name)",
        "queue.get(timeout=1)",
        "future.result(timeout=3)",
        "lock.acquire(blocking=False)",
        "lock.acquire(timeout=2)",
        "socket.recv(zmq.NOBLOCK)",
        "process.poll()",
        "subprocess.run(command, timeout=5)",
        "fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "executor.shutdown(wait=False)",
        "os.waitpid(pid, os.WNOHANG)",
        "def f(timeout_ms: int) -> None:\n    event.wait(timeout_ms)",
    ],
)
def test_a_wait_with_a_deadline_passes(source: str) -> None:
    assert list(places(ast.parse(source))) == []
