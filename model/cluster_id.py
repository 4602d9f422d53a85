"""The id of a cluster: made once, at its first start; it tells clusters of the same name apart.

    where it lives     ZooKeeper (`/zenit/{cluster}/id`) where there are controllers; each broker's store (`cluster.zenit`)
    who carries it     registrations, heartbeats, routes, group nodes, and the header of every request

A store that has an id never takes another. Pure.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from .errors import ConfigError, InvalidParameter
from .groups.group_limits import TOKEN_LENGTH_MAX, check_token

CLUSTER_ID_LENGTH_MAX: Final = TOKEN_LENGTH_MAX


class Standing(StrEnum):
    """How sure a name server is of the id that it tells for a cluster's name."""

    LIVING = "living"  # a broker of it is registered
    REMEMBERED = "remembered"  # none is any more, and no other cluster has had the name since
    OFFERED = "offered"  # nobody has had the name here: the first id that brokers without a cluster have offered
    LISTENING = "listening"  # not known yet: the name server has just started, and a living broker would be heard soon


def check_cluster_id(cluster_id: str) -> str:
    """The id, or "" where it is not known yet; raises InvalidParameter for what cannot be one."""
    return cluster_id and check_token("cluster_id", cluster_id)


def check_cluster_setting(cluster_id: str) -> None:
    """Raises ConfigError where the setting `cluster_id` cannot be one; "" = not set."""
    try:
        check_cluster_id(cluster_id)
    except InvalidParameter as error:
        raise ConfigError("cluster_id", cluster_id, error.expected) from error
