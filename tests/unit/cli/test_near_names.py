"""What the command line says of a topic or group that is not there."""

from __future__ import annotations

import pytest

from zenitmq.cli.near_names import not_found_text
from zenitmq.model.errors import GroupNotFound, TopicNotFound, ZenitError


@pytest.mark.parametrize(
    ("error", "names", "may_create", "said"),
    [
        (TopicNotFound("tradse"), ["logs", "trades"], True, "did you mean 'trades'? (all: zenit topic list)"),
        (TopicNotFound("tradse"), ["logs"], True, "create it: zenit topic create tradse"),
        (TopicNotFound("tradse"), ["logs"], False, "does not exist; those that do: zenit topic list"),
        (GroupNotFound("biling"), ["billing"], True, "did you mean 'billing'? (all: zenit group list)"),
        (GroupNotFound("biling"), [], True, "does not exist; those that do: zenit group list"),
    ],
)
def test_the_name_that_was_meant_or_where_to_look(
    error: TopicNotFound | GroupNotFound, names: list[str], may_create: bool, said: str
) -> None:
    assert isinstance(error, ZenitError)
    assert said in not_found_text(error, names, may_create=may_create)
