"""For tests of programs that use ZenitMQ: clusters that come and go with a test.

    from zenitmq.testing import LocalCluster, MemoryCluster

    with LocalCluster(replicas=3) as cluster, Producer(namesrv=cluster.namesrv) as producer: ...
    with MemoryCluster() as cluster, Producer(namesrv=cluster.namesrv) as producer: ...

The first is of real processes, and can be killed; the second is an engine in the test's own process.

With pytest, in conftest.py: `pytest_plugins = ["zenitmq.testing.pytest_plugin"]`, which brings `zenit_cluster`,
`zenit_namesrv`, `zenit_topic` and `new_zenit_cluster`.

In a container, with testcontainers: `from zenitmq.testing.containers import ZenitContainer`.
"""

from __future__ import annotations

from .local_cluster import LocalCluster as LocalCluster
from .memory_cluster import MemoryCluster as MemoryCluster
