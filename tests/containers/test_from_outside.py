"""What programs and commands do with a cluster of containers, from outside, by published ports: the tests of local clusters."""

from __future__ import annotations

import pytest
from containers.container_cluster import ContainerCluster
from integration.cli.test_quick_look import *  # noqa: F403
from integration.local.test_engine_contract import (  # noqa: F401
    admin,
    test_a_consumer_gets_what_its_condition_or_its_tags_match,
    test_a_group_is_moved_by_its_operator,
    test_a_request_gets_its_reply,
    test_an_administrator_sees_it,
    test_an_ordered_group_has_each_queue_at_one_member,
    test_coroutines,
    test_each_way_to_send_arrives_and_a_group_goes_on_where_it_stopped,
    test_single_messages_are_leased_and_acknowledged,
    test_transactions_and_delays,
    test_what_fails_is_handed_out_again_and_ends_among_the_dead_letters,
    test_what_is_wrong_is_refused,
    topic,
)


@pytest.fixture
def namesrv(cluster: ContainerCluster) -> str:
    return cluster.namesrv


@pytest.fixture
def one_broker(cluster: ContainerCluster) -> ContainerCluster:
    """In place of the local cluster that these tests share elsewhere."""
    return cluster
