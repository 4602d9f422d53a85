"""Which id a name has at one name server: living, remembered, offered, or not known while it listens."""

from __future__ import annotations

import pytest

from zenitmq.model.cluster_id import Standing
from zenitmq.model.errors import BrokerBusy, WrongCluster
from zenitmq.namesrv.cluster_names import ClusterNames

OFFER_MS = 10_000
LISTEN_MS = 5_000


def names(*, listens_until_ms: int = 0, clusters_max: int = 9) -> ClusterNames:
    return ClusterNames(listens_until_ms=listens_until_ms, offer_ms=OFFER_MS, clusters_max=clusters_max)


def test_nothing_is_offered_before_living_brokers_had_the_time_to_come_back() -> None:
    started = names(listens_until_ms=LISTEN_MS)
    assert started.on_claim("c", "id-1", LISTEN_MS - 1) == ("", Standing.LISTENING)
    assert started.on_claim("c", "id-2", LISTEN_MS) == ("id-2", Standing.OFFERED)


def test_who_registers_is_known_while_it_listens() -> None:
    started = names(listens_until_ms=LISTEN_MS)
    started.on_living({"c": "id-1"})
    assert started.on_claim("c", "id-2", 0) == ("id-1", Standing.LIVING)
    assert started.on_claim("d", "id-2", 0) == ("", Standing.LISTENING)


def test_the_first_id_that_is_offered_is_everybodys_until_nobody_asks_for_it() -> None:
    known = names()
    assert [known.on_claim("c", offered, 0)[0] for offered in ("id-1", "id-2")] == ["id-1", "id-1"]
    assert known.on_claim("c", "id-2", OFFER_MS - 1)[0] == "id-1"
    assert known.on_claim("c", "id-2", 2 * OFFER_MS - 2)[0] == "id-1", "who asks keeps it"
    assert known.on_claim("c", "id-3", 3 * OFFER_MS)[0] == "id-3"


def test_a_cluster_that_has_gone_is_remembered_until_another_one_has_the_name() -> None:
    known = names()
    known.on_living({"c": "id-1"})
    known.on_living({})
    assert known.on_claim("c", "id-3", 10 * OFFER_MS) == ("id-1", Standing.REMEMBERED)
    known.check_free("c", "id-2")
    known.on_living({"c": "id-2"})
    known.on_living({})
    assert known.on_claim("c", "id-3", 20 * OFFER_MS) == ("id-2", Standing.REMEMBERED)


def test_another_id_is_refused_while_a_cluster_lives() -> None:
    known = names()
    known.on_living({"c": "id-1"})
    known.check_free("c", "id-1")
    with pytest.raises(WrongCluster) as refused:
        known.check_free("c", "id-2")
    assert refused.value.args == ("c", "id-1", "id-2")


def test_offers_are_bounded() -> None:
    known = names(clusters_max=2)
    for cluster in ("c", "d"):
        known.on_claim(cluster, "id-1", 0)
    with pytest.raises(BrokerBusy):
        known.on_claim("e", "id-1", 0)
    known.on_claim("e", "id-1", OFFER_MS)


def test_what_is_remembered_is_bounded_and_the_oldest_is_forgotten() -> None:
    known = names(clusters_max=2)
    for cluster in ("c", "d", "e"):
        known.on_living({cluster: f"id-{cluster}"})
    known.on_living({})
    assert known.on_claim("c", "new", 0) == ("new", Standing.OFFERED)
    assert known.on_claim("d", "new", 0) == ("id-d", Standing.REMEMBERED)
    assert known.on_claim("e", "new", 0) == ("id-e", Standing.REMEMBERED)
