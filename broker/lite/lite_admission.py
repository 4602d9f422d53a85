"""Decides whether a group may receive a topic's lite topics. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...model.errors import GroupNotFound, InvalidParameter, NotLiteParent
from ...model.names import check_group
from ...model.topics.lite_settings import BIND_TOPIC, LiteGroup, is_lite_parent, lite_group
from ..state.admission import readable
from ..state.group_table import GroupTable
from ..state.topic_table import TopicTable

_NOTHING: Final[Mapping[str, Any]] = {}


def lite_parent(
    topics: TopicTable, groups: GroupTable, group: str, topic: str, *, auto_create_groups: bool
) -> LiteGroup:
    """The group's settings. Raises TopicNotFound, NoPermission, NotLiteParent, GroupNotFound, InvalidParameter."""
    if not is_lite_parent(readable(topics, topic, 0).attributes):
        raise NotLiteParent(topic)
    document = groups.documents.get(group)
    if document is None:
        check_group(group)
        if not auto_create_groups:
            raise GroupNotFound(group)
    settings = lite_group((document or _NOTHING).get("attributes") or _NOTHING)
    if settings.bind_topic not in ("", topic):
        raise InvalidParameter("topic", topic, f"{settings.bind_topic}, the {BIND_TOPIC} of group {group}")
    return settings
