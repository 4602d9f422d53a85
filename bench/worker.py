"""`python -m zenitmq.bench.worker ROLE`: the entry of a load process; its parent is `processes.Worker`."""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import Final

from ..model.errors import ZenitError
from .processes import WorkerChannel

# {role: (module, class of its job, function)}; a process imports only what its role needs
ROLES: Final[dict[str, tuple[str, str, str]]] = {
    "raw-server": ("raw.raw_server", "RawServerJob", "serve"),
    "raw-copy": ("raw.raw_copy", "RawCopyJob", "follow"),
    "raw-client": ("raw.raw_client", "RawClientJob", "drive"),
    "namesrv": ("services", "ServiceJob", "serve_namesrv"),
    "broker": ("services", "ServiceJob", "serve_broker"),
    "produce": ("works.produce", "ProduceJob", "produce"),
    "prebuilt": ("works.prebuilt", "PrebuiltJob", "send_prebuilt"),
    "consume": ("works.consume", "ConsumeJob", "consume"),
    "pop": ("works.pop", "PopJob", "pop"),
    "latency": ("works.latency", "LatencyJob", "send_one_by_one"),
    "transactions": ("works.transactions", "TransactionsJob", "commit_all"),
    "schedule": ("works.e2e", "ScheduleJob", "send_on_schedule"),
    "receive": ("works.e2e", "ReceiveJob", "receive"),
    "proxy": ("proxy.servers", "ProxyJob", "serve_proxy"),
    "bare-grpc": ("proxy.servers", "BareJob", "serve_bare"),
    "grpc-send": ("proxy.grpc_load", "GrpcSendJob", "send"),
    "grpc-receive": ("proxy.grpc_load", "GrpcReceiveJob", "receive"),
    "grpc-idle": ("proxy.grpc_load", "GrpcIdleJob", "stay"),
    "classic-send": ("proxy.classic_load", "ClassicSendJob", "send"),
    "hostile": ("proxy.hostile_load", "HostileJob", "annoy"),
    "encode": ("stages", "EncodeJob", "measure_encoding"),
}


def main(role: str) -> int:
    """Runs one job in this process."""
    status = run_role(role, WorkerChannel(sys.stdin, sys.stdout))
    with contextlib.suppress(BrokenPipeError):  # before Python does, which would report it
        sys.stdout.close()
    return status


def run_role(role: str, channel: WorkerChannel) -> int:
    """Runs one job; reports a failure to the parent as one line. The parent may have closed: then nobody wants to know."""
    module_name, job_class, function = ROLES[role]
    with contextlib.suppress(BrokenPipeError):
        try:
            module = importlib.import_module(f".{module_name}", __package__)
            getattr(module, function)(getattr(module, job_class)(**channel.job()), channel)
        except (ZenitError, OSError) as error:
            channel.error(f"{type(error).__name__}: {error}")
        else:
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
