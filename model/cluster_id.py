"""The id of a cluster, created once at its first start; it distinguishes clusters of the same name.

    where it is stored  ZooKeeper (`/zenit/{cluster}/id`) if there are controllers; each broker's store (`cluster.zenit`)
    what carries it     registrations, heartbeats, routes, group nodes, and the header of every request

A store that has an id never takes another. Pure.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from .errors import ConfigError, InvalidParameter
from .groups.group_limits import TOKEN_LENGTH_MAX, check_token

CLUSTER_ID_LENGTH_MAX: Final = TOKEN_LENGTH_MAX


class Standing(StrEnum):
    """How certain a name server is of the id that it reports for a cluster's name."""

    LIVING = "living"  # a broker of it is registered
    REMEMBERED = "remembered"  # none is registered now, and no other cluster has used the name since
    OFFERED = "offered"  # nobody has used the name here: the first id that brokers without a cluster have offered
    LISTENING = "listening"  # unknown: the name server has just started, and would hear a living broker soon


def check_cluster_id(cluster_id: str) -> str:
    """The id, or "" if it is not known yet; raises InvalidParameter for an invalid one."""
    return cluster_id and check_token("cluster_id", cluster_id)


def check_cluster_setting(cluster_id: str) -> None:
    """Raises ConfigError if the setting `cluster_id` is not a valid id; "" = not set."""
    try:
        check_cluster_id(cluster_id)
    except InvalidParameter as error:
        raise ConfigError("cluster_id", cluster_id, error.expected) from error
