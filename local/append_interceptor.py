"""For programs that want to see what an embedded engine stores, when it is stored."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from ..client.connection.argument_checks import check_callback
from ..client.connection.engine_url import EMBEDDED, is_engine, parse_engine
from ..model.errors import EngineLacks, InvalidParameter
from .embedded.engine import OnAppended
from .engines import open_engine


class AppendInterceptor:
    """Calls a function after each append of an `embedded://` engine, until it is closed; a context manager.

    The function gets a MessageBatch: messages of one queue that were just stored, in their order, with their offsets. It runs
    before the `send` or `send_batch` that stored them returns, in the same thread; for messages of `post` and `send_async` in
    the client's I/O thread, where it must not wait, before their futures are done if no other call runs. It may send messages
    itself. One call runs at a time. What it raises is logged: the messages are stored all the same. Messages that were
    stored before are not shown: read them with a consumer.
    """

    def __init__(self, namesrv: str, on_appended: OnAppended) -> None:
        """`namesrv`: "embedded:///DIRECTORY"; it stays open until `close`. Raises EngineLacks for another engine,
        InvalidParameter for a cluster or what is no function, StoreLocked."""
        if not is_engine(namesrv):
            raise InvalidParameter(
                "namesrv", namesrv, "embedded:///DIRECTORY: only an engine of this program calls back"
            )
        check_callback("on_appended", on_appended, is_needed=True)
        url = parse_engine("namesrv", namesrv)
        if url.scheme != EMBEDDED:
            raise EngineLacks(f"{url.scheme}://", "interceptors", "use embedded:///DIRECTORY, or a consumer")
        self._engine = open_engine(url)
        self._end = self._engine.intercept(on_appended)
        self._is_closed = False

    def close(self) -> None:
        """Calls no more, and releases the engine. Idempotent."""
        if not self._is_closed:
            self._is_closed = True
            self._end()
            self._engine.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
