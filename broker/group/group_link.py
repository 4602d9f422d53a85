"""Where a replica hears who leads its group: from controllers, or from the one broker that always does."""

from __future__ import annotations

from collections.abc import Callable

from ...model.clock import Clock
from ...model.groups.group import FlushMode, GroupSettings, KnownGroup
from ...remoting.client import RemotingClient
from ...remoting.server import RequestLoop
from ..config import BrokerConfig
from .cluster_membership import ClusterMembership
from .controller_link import ControllerLink
from .followed_store import FollowedStore
from .group_member import GroupMember
from .held_news import HeldNews
from .static_group import StaticGroup


def link_to_group(
    config: BrokerConfig,
    member: GroupMember,
    client: RemotingClient,
    loop: RequestLoop,
    clock: Clock,
    *,
    own_address: str,
    is_empty: bool,
    on_start_counter_behind: Callable[[int], None],
    cluster: ClusterMembership,
) -> ControllerLink | StaticGroup:
    """`own_address`: the one clients connect to. `is_empty`: our log has nothing yet."""
    if config.static_master == own_address:
        return _static_group(config, member, loop, clock, cluster)

    def take(known: KnownGroup) -> None:
        if cluster.on_told(known.node.cluster_id):
            member.on_group(known)

    if config.static_master:
        take = FollowedStore(config.store_dir, is_empty=is_empty, on_group=take).on_group
    return ControllerLink(
        client,
        loop,
        clock,
        addresses=config.controllers or (config.static_master,),
        broker_name=config.name,
        replica_name=member.name,
        on_group=HeldNews(loop, take).on_group,
        heartbeat_facts=member.heartbeat_facts,
        on_start_counter_behind=on_start_counter_behind,
        cluster_id=lambda: cluster.cluster_id,
        on_other_cluster=cluster.on_refused,
    )


def _static_group(
    config: BrokerConfig, member: GroupMember, loop: RequestLoop, clock: Clock, cluster: ClusterMembership
) -> StaticGroup:
    """What takes the place of controllers where this broker is always the master."""
    group = StaticGroup(
        loop,
        clock,
        broker_name=config.name,
        name=member.name,
        settings=GroupSettings(min_in_sync=config.static_min_in_sync, flush_mode=FlushMode(config.store.flush_mode)),
        epoch_seen=member.epoch_seen,
        on_group=HeldNews(loop, member.on_group).on_group,
        cluster_id=lambda: cluster.settled_id,
    )
    for one in group.rows():
        loop.handle(one.request_class, one.handler)
    return group
