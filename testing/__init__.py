"""For tests of programs that use ZenitMQ: clusters of real processes that come and go with a test.

    from zenitmq.testing import LocalCluster

    with LocalCluster(replicas=3) as cluster, Producer(namesrv=cluster.namesrv) as producer: ...

With pytest, in conftest.py: `pytest_plugins = ["zenitmq.testing.pytest_plugin"]`, which brings `zenit_cluster`,
`zenit_namesrv`, `zenit_topic` and `new_zenit_cluster`.
"""

from __future__ import annotations

from .local_cluster import LocalCluster as LocalCluster
