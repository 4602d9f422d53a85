"""A broker in a container, in the style of testcontainers (`pip install testcontainers`).

    with ZenitContainer() as zenit, Producer(namesrv=zenit.namesrv) as producer: ...

With pytest, the fixture `zenit_container` of `zenitmq.testing.pytest_plugin`. The image is built in a clone:
`deploy/image/build.sh`.
"""

from __future__ import annotations

import http.client
import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final, Self, cast

from docker.errors import APIError, ImageNotFound
from testcontainers.core.container import DockerContainer
from testcontainers.core.exceptions import ContainerStartException

from ..client.admin import Admin
from ..model.clock import monotonic_ms, sleep_ms
from ..model.errors import RequirementMissing, ZenitError
from ..model.names import VERSION
from .local_cluster import SMALL_STORE

IMAGE: Final = f"zenitmq:{VERSION}"
ENVIRONMENT_IMAGE: Final = "ZENIT_IMAGE"
METRICS_PORT: Final = 9880  # inside
READY_TIMEOUT_S: Final = 60.0
PROBE_TIMEOUT_S: Final = 2.0
LOOK_MS: Final = 50
PORT_TRIES: Final = 3
LINES_SHOWN: Final = 5


class ZenitContainer(DockerContainer):
    """A name server and a broker in one container, ready when `start` returns; its messages go with it.

    The broker tells clients its address. So its ports are the same inside and outside: free ones of this machine.
    """

    def __init__(
        self,
        image: str | None = None,
        *,
        settings: Sequence[str] = SMALL_STORE,
        ready_timeout: float = READY_TIMEOUT_S,
        **options: Any,
    ) -> None:
        """`image`: None = $ZENIT_IMAGE, else the one of this version.

        `settings`: of the broker, as `zenit broker --set` takes them. `ready_timeout`: seconds. `options`: of
        testcontainers' DockerContainer.
        """
        super().__init__(image or os.environ.get(ENVIRONMENT_IMAGE) or IMAGE, **options)
        self._settings = tuple(settings)
        self._ready_timeout_s = ready_timeout
        self._host = ""
        self._name_server_port = 0

    @property
    def namesrv(self) -> str:
        """The name server's address, as `namesrv=` takes it."""
        return f"{self._host}:{self._name_server_port}"

    def start(self) -> Self:
        """Starts the container, and waits until clients can use it.

        Raises RequirementMissing without the image, ContainerStartException with the end of its log.
        """
        for tries_left in reversed(range(PORT_TRIES)):
            try:
                super().start()
                break
            except APIError as error:
                self._remove()
                if not self._has_image():  # and no registry that this engine asks has it, or can be reached
                    raise RequirementMissing(f"the image {self.image}", "build it: deploy/image/build.sh") from error
                # Another program may have taken a port since.
                if not tries_left or "port is already allocated" not in str(error):
                    raise
        try:
            self._wait_ready()
        except BaseException:
            self._remove()
            raise
        return self

    def create_topic(self, topic: str, *, queues: int = 4) -> str:
        """Creates a topic and returns its name."""
        with Admin(self.namesrv) as admin:
            admin.create_topic(topic, queues=queues)
        return topic

    def _configure(self) -> None:
        """Called by `start` before the container is made."""
        self._host = self.get_docker_client().host()
        self._name_server_port, publish_port, broker_port = free_ports(3)
        self.with_envs(
            ZENIT_NAMESRV__PORT=str(self._name_server_port),
            ZENIT_NAMESRV__PUBLISH_PORT=str(publish_port),
            ZENIT_BROKER__PORT=str(broker_port),
            ZENIT_BROKER__ADVERTISED_HOST=self._host,
        )
        where = "127.0.0.1" if self._host == "localhost" else ""
        published = {str(port): (where, port) for port in (self._name_server_port, publish_port, broker_port)}
        self.ports = cast(dict[str, int | None], {**published, str(METRICS_PORT): (where, None)})
        self.with_command([word for setting in self._settings for word in ("--set", setting)])
        self._kwargs = {"entrypoint": ["zenit-lone"], "init": True, **self._kwargs}

    def _has_image(self) -> bool:
        with suppress(ImageNotFound):
            return bool(self.get_docker_client().client.images.get(self.image))
        return False

    def _wait_ready(self) -> None:
        deadline_ms = monotonic_ms() + round(self._ready_timeout_s * 1000)
        while not self._is_ready():
            self.reload()
            if self.status not in ("created", "running"):
                raise ContainerStartException(f"{self.image} ended: {self._last_lines()}")
            if monotonic_ms() > deadline_ms:
                raise ContainerStartException(
                    f"{self.image} is not ready after {self._ready_timeout_s} s: {self._last_lines()}"
                )
            sleep_ms(LOOK_MS)

    def _is_ready(self) -> bool:
        """Whether the broker is ready, and its name server knows it."""
        with suppress(OSError, http.client.HTTPException, ConnectionError), ExitStack() as opened:
            probe = http.client.HTTPConnection(
                self._host, self._get_exposed_port(METRICS_PORT), timeout=PROBE_TIMEOUT_S
            )
            opened.callback(probe.close)
            probe.request("GET", "/readyz")
            if probe.getresponse().status == http.client.OK:
                with suppress(ZenitError), Admin(self.namesrv, timeout=PROBE_TIMEOUT_S) as admin:
                    return bool(admin.cluster()["brokers"])
        return False

    def _last_lines(self) -> str:
        said = b"".join(self.get_logs()).decode(errors="replace").strip().splitlines()
        return " | ".join(said[-LINES_SHOWN:]) or "it printed nothing"

    def _remove(self) -> None:
        if self._container is not None:
            self._container.remove(force=True, v=True)
            self._container = None


def free_ports(count: int) -> list[int]:
    """So many TCP ports of this machine that are free now, all different."""
    with ExitStack() as held:
        ports = []
        for _ in range(count):
            taken = held.enter_context(socket.socket())
            taken.bind(("", 0))
            ports.append(int(taken.getsockname()[1]))
        return ports
