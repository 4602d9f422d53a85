"""`zenit policy allow | deny | remove | list | import`, and `zenit explain`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ...options import Json, Namesrv, usage_of_values
from ...output import counted, note, print_table, show
from .changing import ROLE_PREFIX, changed_rules, show_change

if TYPE_CHECKING:
    from ....client.admin import Admin
    from ....model.security.principals import Rule, User
    from ....model.security.rocketmq_acl import ImportedAcl

FILE_CHARACTERS_MAX: Final = 16 << 20

Whom = Annotated[str, typer.Argument(metavar="USER|role:ROLE", help="A user, or a role as in role:readers.")]
Actions = Annotated[
    str,
    typer.Argument(metavar="ACTIONS", help='pub, sub, create, update, delete, get, list: one or "pub,sub"; "*" = all.'),
]
Target = Annotated[
    str,
    typer.Argument(
        metavar="RESOURCE:NAME", help='topic:orders, "topic:or*", "group:*", query:NAME, cluster, security, or "*".'
    ),
]
From = Annotated[
    list[str] | None,
    typer.Option("--from", metavar="NET", help="Only from this address or network, 10.0.0.0/8; repeatable."),
]


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    policy_app = typer.Typer()
    policy_app.command("allow")(allow)
    policy_app.command("deny")(deny)
    policy_app.command("remove")(remove)
    policy_app.command("list")(list_rules)
    policy_app.command("import")(import_rules)
    app.add_typer(policy_app, name="policy")
    app.command("explain")(explain)


def allow(
    whom: Whom, actions: Actions, target: Target, network: From = None, namesrv: Namesrv = None, as_json: Json = False
) -> None:
    """Add a rule that allows; what no rule allows is refused."""
    _add(whom, _new_rule("allow", actions, target, network), namesrv, as_json)


def deny(
    whom: Whom, actions: Actions, target: Target, network: From = None, namesrv: Namesrv = None, as_json: Json = False
) -> None:
    """Add a rule that denies; it wins over every rule that allows."""
    _add(whom, _new_rule("deny", actions, target, network), namesrv, as_json)


def remove(
    whom: Whom,
    effect: Annotated[str, typer.Argument(metavar="allow|deny")],
    actions: Actions,
    target: Target,
    network: From = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Take a rule away, written as it was added."""
    rule = _rule(effect, actions, target, network)
    from ....client.admin import Admin

    with Admin(namesrv) as admin:
        change = changed_rules(admin, whom, lambda rules: _without(rules, rule))
    show_change(change, as_json, f"{whom} has no longer: {rule}")


def list_rules(
    whom: Annotated[
        str | None, typer.Argument(metavar="[USER|role:ROLE]", help="Only these; a user's roles too.")
    ] = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """List rules, and whose they are."""
    from ....client.admin import Admin
    from ....model.errors import SecurityRowNotFound
    from ....model.security.principals import User

    with Admin(namesrv) as admin:
        rows = admin.security_rows()
    owners = {row.name: row.value for row in rows.users} | {f"{ROLE_PREFIX}{row.name}": row.value for row in rows.roles}
    if whom is None:
        chosen = list(owners)
    elif whom in owners:
        value = owners[whom]
        chosen = [whom, *(f"{ROLE_PREFIX}{role}" for role in (value.roles if isinstance(value, User) else ()))]
    else:
        kind, name = ("role", whom.removeprefix(ROLE_PREFIX)) if whom.startswith(ROLE_PREFIX) else ("user", whom)
        raise SecurityRowNotFound(f"{kind}/{name}")
    listed = [
        {"of": owner, "rule": str(rule)} for owner in chosen if (value := owners.get(owner)) for rule in value.rules
    ]
    show(listed, as_json, lambda: print_table(("of", "rule"), [[row["of"], row["rule"]] for row in listed]))


def import_rules(
    path: Annotated[
        str, typer.Argument(metavar="FILE", help="plain_acl.yml of RocketMQ 4, or users and ACLs of 5 as JSON.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be imported.")] = False,
    keep_secrets: Annotated[
        bool,
        typer.Option("--keep-secrets", help="Also store the file's secrets, for clients that come through a gateway."),
    ] = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Create users with the rights of RocketMQ's, and say what comes out otherwise: here a deny always wins."""
    from ....client.admin import Admin
    from ....model.security.rocketmq_acl import import_acl

    with usage_of_values():
        imported = import_acl(_text_of(path))
    untold: dict[str, str] = {}
    if not dry_run:
        with Admin(namesrv) as admin:
            for user in imported.users:
                untold |= _store(admin, user)
            for name, secret in imported.secrets.items() if keep_secrets else ():
                untold |= admin.make_secret(name, secret).untold
    document = {
        "users": [
            {
                "name": user.name,
                "user_kind": user.kind.value,
                "disabled": user.disabled,
                "rules": [*map(str, user.rules)],
            }
            for user in imported.users
        ],
        "notes": list(imported.notes),
        "differences": list(imported.differences),
        "secrets": len(imported.secrets) if keep_secrets else 0,
        "dry_run": dry_run,
        "untold": untold,
    }
    show(document, as_json, lambda: _print_import(imported, is_dry_run=dry_run, keep_secrets=keep_secrets))
    for address, reason in untold.items():
        note(f"{address} does not know it yet ({reason}); it learns it within seconds of coming back")


def explain(
    user: Annotated[str, typer.Argument(metavar="USER")],
    action: Annotated[str, typer.Argument(metavar="ACTION", help="pub, sub, create, update, delete, get or list.")],
    target: Annotated[str, typer.Argument(metavar="RESOURCE:NAME", help="topic:orders, group:billing, cluster, ...")],
    address: Annotated[str, typer.Option("--address", metavar="IP", help="The address that it comes from.")] = "",
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Say whether a user may do something, and by which rule."""
    from ....client.admin import Admin
    from ....model.security.rule_text import parse_action, parse_asked

    with usage_of_values():
        asked, (resource, name) = parse_action(action), parse_asked(target)
    with Admin(namesrv) as admin:
        told = admin.explain_right(user, asked, resource, name, address=address)
    document = {
        "user": user,
        "action": asked.value,
        "resource": resource.value,
        "name": name,
        "allowed": told.allowed,
        "reason": told.reason,
        "of": told.of,
    }
    may = "may" if told.allowed else "may not"
    thing = f"{resource.value}:{name}" if name else resource.value
    owner = f" ({told.of})" if told.of and told.of != user else ""
    show(document, as_json, lambda: typer.echo(f"{user} {may} {asked.value} on {thing}: {told.reason}{owner}"))


def _rule(effect: str, actions: str, target: str, networks: list[str] | None) -> Rule:
    from ....model.security.principals import RuleEffect
    from ....model.security.rule_text import parse_rule

    if effect not in ("allow", "deny"):
        raise typer.BadParameter(f"{effect!r}: expected allow or deny", param_hint="allow|deny")
    with usage_of_values():
        return parse_rule(RuleEffect(effect), actions, target, networks or ())


def _new_rule(effect: str, actions: str, target: str, networks: list[str] | None) -> Rule:
    from ....model.security.rule_text import check_counts

    with usage_of_values():
        return check_counts(_rule(effect, actions, target, networks))


def _add(whom: str, rule: Rule, namesrv: str | None, as_json: bool) -> None:
    from ....client.admin import Admin

    with Admin(namesrv) as admin:
        change = changed_rules(admin, whom, lambda rules: tuple(dict.fromkeys((*rules, rule))))
    show_change(change, as_json, f"{whom}: {rule}")


def _without(rules: tuple[Rule, ...], rule: Rule) -> tuple[Rule, ...]:
    from ....model.errors import InvalidParameter

    if rule not in rules:
        known = "; ".join(map(str, rules[:8])) or "none: there is no rule"
        raise InvalidParameter("rule", str(rule), f"one of these: {known}")
    return tuple(each for each in rules if each != rule)


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(FILE_CHARACTERS_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise typer.BadParameter(f"{path!r} cannot be read: {reason}", param_hint="FILE") from None
    if len(text) > FILE_CHARACTERS_MAX:
        raise typer.BadParameter(f"{path!r} has more than {FILE_CHARACTERS_MAX} characters", param_hint="FILE")
    return text


def _store(admin: Admin, user: User) -> dict[str, str]:
    """A new user, or more rules for one that there is."""
    from ....model.errors import SecurityRowNotFound

    def with_rules(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
        return tuple(dict.fromkeys((*rules, *user.rules)))

    try:
        return changed_rules(admin, user.name, with_rules).untold
    except SecurityRowNotFound:
        return admin.put_security_row(replace(user, keys=()), expected_version=0).untold


def _print_import(imported: ImportedAcl, *, is_dry_run: bool, keep_secrets: bool) -> None:
    rows: list[list[Any]] = [[user.name, user.kind.value, str(rule)] for user in imported.users for rule in user.rules]
    rows += [[user.name, user.kind.value, "-"] for user in imported.users if not user.rules]
    print_table(("user", "kind", "rule"), rows)
    for sentence in (*imported.notes, *imported.differences):
        typer.echo(sentence)
    imported_users = counted(len(imported.users), "user")
    if is_dry_run:
        typer.echo(f"{imported_users} would be imported")
    else:
        typer.echo(f"imported: {imported_users}, without a key yet: zenit user add-key")
    if keep_secrets:
        typer.echo(f"{counted(len(imported.secrets), 'secret')} with them")
