"""`zenit key new | show | rotate | trust | secrets`: the files with which users and servers prove who they are."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...options import Json, Namesrv, usage_of_values
from ...output import print_facts, show

if TYPE_CHECKING:
    from ....deploy.cluster_record import ProcessRecord
    from ....remoting.security.key_file import KeyFile

File = Annotated[str, typer.Argument(metavar="FILE", help="A key file.")]


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    key_app = typer.Typer()
    key_app.command("new")(new)
    key_app.command("cluster")(cluster_keys)
    key_app.command("show")(show_key)
    key_app.command("rotate")(rotate)
    key_app.command("trust")(trust)
    key_app.command("secrets")(new_secrets_key)
    app.add_typer(key_app, name="key")


def new(
    user: Annotated[str, typer.Argument(metavar="USER", help="Whose key it is: a user's or a server's name.")],
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="Where to write it; else ~/.zenit/keys/USER.key.")
    ] = None,
    servers: Annotated[
        list[str] | None,
        typer.Option(
            "--server",
            metavar="HOST:PORT=PUBLIC",
            help="A name server and its public key; repeatable. Else those of your own key file.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a key pair in a file of its own. Nobody knows it yet: `zenit user create --key` or the trusted file grants it."""
    from ....model.security.principals import User, check_user
    from ....remoting.security.curve_socket import new_key_pair
    from ....remoting.security.key_file import KeyFile, write_key_file

    with usage_of_values():
        check_user(User(user, ()))
    known = {at: (key,) for at, key in map(_server, servers)} if servers is not None else _own_servers()
    path = _place(out) if out is not None else _own_place(user)
    key = KeyFile(user, new_key_pair(), known)
    write_key_file(path, key)
    _print(path, key, as_json)


def cluster_keys(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="Where the files go.")],
    servers: Annotated[
        list[str],
        typer.Argument(
            metavar="SERVER...", help="NAME=HOST:PORT of a name server or controller; GROUP/REPLICA of a broker."
        ),
    ],
    proxies: Annotated[
        list[str] | None,
        typer.Option("--proxy", metavar="NAME", help="A proxy, or several that share a key; may be repeated."),
    ] = None,
    cluster: Annotated[str, typer.Option("--cluster", metavar="NAME", help="The cluster's name.")] = "zenit",
    as_json: Json = False,
) -> None:
    """Make the files that secure a cluster: NAME.key for each server, admin.key, trusted.toml, zookeeper.login, users.secrets.

    A key that is there stays, and what names addresses is written anew: so a server is added by the same command with one
    more. Give each server its own key, and all of them trusted.toml; the controllers zookeeper.login. With users.secrets
    (setting security.secrets_key) servers can keep users' secrets. A proxy gets its key alone.
    """
    from ....deploy.cluster_keys import ADMINISTRATOR, write_keys
    from ....deploy.cluster_plan import TRUSTED_FILE
    from ....deploy.cluster_record import ClusterRecord

    processes = (*map(_process, servers), *map(_proxy, proxies or ()))
    names = [process.name for process in processes]
    twice = next((name for name in names if names.count(name) > 1 or name == ADMINISTRATOR), None)
    if twice is not None:
        raise typer.BadParameter(f"{twice!r} is named twice; a file is called by the name", param_hint="SERVER")
    addresses = [process.address for process in processes if process.address]
    shared = next((address for address in addresses if addresses.count(address) > 1), None)
    if shared is not None:
        raise typer.BadParameter(f"{shared} is named twice; each server has an address of its own", param_hint="SERVER")
    path = os.path.abspath(os.path.expanduser(directory))
    try:
        write_keys(ClusterRecord(cluster=cluster, namesrv="", processes=processes, keys=path), ())
    except OSError as error:
        raise typer.BadParameter(
            f"{path} cannot be written ({error.strerror}): name a directory of yours", param_hint="DIR"
        ) from None
    document = {"directory": path, "servers": names, "trusted": os.path.join(path, TRUSTED_FILE)}
    show(document, as_json, lambda: print_facts(document))


def show_key(file: File, as_json: Json = False) -> None:
    """Print whose key a file holds, and its public half; never the secret."""
    from ....remoting.security.key_file import read_key_file

    _print(file, read_key_file(file), as_json)


def rotate(
    file: File,
    trusted: Annotated[
        str | None,
        typer.Option(
            "--trusted",
            metavar="FILE",
            help="The trusted file that names the key, of a server or the first super user.",
        ),
    ] = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Replace the key in a file by a new one, without a pause: the old one stays granted until it is removed.

    The user gets the new key beside the old one; then the file is replaced, and the old one kept as FILE.old. Whoever uses
    the file restarts when it suits. The last step, which is printed, takes the old key away. Of a server, give the trusted
    file, and copy it to every server before this one restarts.
    """
    from ....remoting.security.curve_socket import new_key_pair
    from ....remoting.security.key_file import read_key_file, write_key_file

    path = os.path.expanduser(file)
    old = read_key_file(path)
    key = replace(old, pair=new_key_pair())
    if trusted is not None:
        places = _grant_in_file(os.path.expanduser(trusted), old, key)
        told = "".join(
            f"; tell it to clients that have it: zenit key trust FILE '{at}={key.pair.public}'" for at in places
        )
        last = (
            f"copy {trusted} to every server{told}; when all use the new key, take {old.pair.public} out of {trusted}"
        )
    else:
        _grant(old, key, namesrv)
        last = f"when all use the new key: zenit user remove-key {old.user} '{old.pair.public}'"
    write_key_file(f"{path}.old", old, replace=True)
    write_key_file(path, key, replace=True)
    document = _document(path, key) | {"old_public": old.pair.public, "old_path": f"{path}.old", "next": last}
    show(document, as_json, lambda: print_facts(document))


def trust(
    file: File,
    server: Annotated[
        str,
        typer.Argument(metavar="HOST:PORT=PUBLIC", help="A name server, and a public key that it has or will have."),
    ],
    only: Annotated[bool, typer.Option("--only", help="Its other keys count no more.")] = False,
    as_json: Json = False,
) -> None:
    """Take a name server by one more key, beside the one that the file has: its key is being changed.

    Programs read the file when they start. Once they have, the server may come back with either key.
    """
    from ....model.security.principals import KEYS_MAX
    from ....remoting.security.key_file import read_key_file, write_key_file

    path = os.path.expanduser(file)
    key = read_key_file(path)
    address, public = _server(server)
    others = tuple(each for each in key.servers.get(address, ()) if each != public and not only)
    if len(others) >= KEYS_MAX:
        raise typer.BadParameter(
            f"{address} has two keys already: --only takes this one alone", param_hint="HOST:PORT=PUBLIC"
        )
    key = replace(key, servers={**key.servers, address: (public, *others)})
    write_key_file(path, key, replace=True)
    _print(path, key, as_json)


def new_secrets_key(
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="Where to write it.")], as_json: Json = False
) -> None:
    """Make the file with the key under which servers store users' secrets (setting security.secrets_key).

    Copy it to every server. To change the key, put a new one's line above the old one at each server, restart them, make the
    users' secrets anew, and take the old line out.
    """
    from ....remoting.security.key_file import write_private
    from ....remoting.security.secret_keys import new_secret_key

    path = _place(out)
    write_private(path, new_secret_key() + "\n", remedy="move it away, or choose another name")
    document = {"path": path}
    show(document, as_json, lambda: typer.echo(f"{path} holds the key; set security.secrets_key at every server"))


def _grant(old: KeyFile, key: KeyFile, namesrv: str | None) -> None:
    """The user has both keys from now on."""
    from ....client.admin import Admin
    from ....model.security.principals import KEYS_MAX, User
    from ....model.security.row_codec import RowKind

    with Admin(namesrv) as admin:
        row = admin.security_row(RowKind.USER, old.user)
        user = row.value
        assert isinstance(user, User)
        if old.pair.public not in user.keys:
            raise typer.BadParameter(f"user {old.user} does not have the key in it", param_hint="FILE")
        if len(user.keys) >= KEYS_MAX:
            (other,) = (each for each in user.keys if each != old.pair.public)
            raise typer.BadParameter(
                f"user {old.user} has two keys already; remove the other one first: zenit user remove-key {old.user} '{other}'",
                param_hint="FILE",
            )
        keys = (key.pair.public, *user.keys)
        admin.put_security_row(replace(user, keys=keys), expected_version=row.version)


def _grant_in_file(trusted: str, old: KeyFile, key: KeyFile) -> tuple[str, ...]:
    """Returns the addresses of the server."""
    from ....deploy.text_file import write_text
    from ....model.security.principals import KEYS_MAX
    from ....model.security.trusted_file import encode_trusted
    from ....remoting.security.opened_security import read_trusted

    rows = list(read_trusted(trusted))
    for place, row in enumerate(rows):
        if old.pair.public in row.user.keys:
            if len(row.user.keys) >= KEYS_MAX:
                raise typer.BadParameter(
                    f"{row.user.name} has two keys already; take one out first", param_hint="--trusted"
                )
            rows[place] = replace(row, user=replace(row.user, keys=(key.pair.public, *row.user.keys)))
            write_text(trusted, encode_trusted(rows), mode=0o644)
            return row.addresses
    raise typer.BadParameter(f"no user there has the key {old.pair.public}", param_hint="--trusted")


def _process(text: str) -> ProcessRecord:
    """What SERVER says. Raises typer.BadParameter."""
    from ....client.connection.cluster import parse_addresses
    from ....deploy.cluster_record import BROKER, NAME_SERVER, ProcessRecord
    from ....model.errors import InvalidName
    from ....model.groups.group_limits import check_name

    first, equals, address = text.partition("=")
    group, slash, replica = first.partition("/")
    if bool(equals) == bool(slash):
        raise typer.BadParameter(f"{text!r}: expected NAME=HOST:PORT or GROUP/REPLICA", param_hint="SERVER")
    try:
        name = check_name("server", replica if slash else first)
        group = check_name("group", group) if slash else ""
    except InvalidName as error:
        raise typer.BadParameter(f"{text!r}: expected {error.rule}", param_hint="SERVER") from None
    if slash:
        return ProcessRecord(role=BROKER, name=name, address="", group=group)
    with usage_of_values():
        return ProcessRecord(role=NAME_SERVER, name=name, address=parse_addresses("SERVER", address)[0])


def _proxy(text: str) -> ProcessRecord:
    """What --proxy says. Raises typer.BadParameter."""
    from ....deploy.cluster_record import PROXY, ProcessRecord
    from ....model.errors import InvalidName
    from ....model.groups.group_limits import check_name

    try:
        return ProcessRecord(role=PROXY, name=check_name("server", text), address="")
    except InvalidName as error:
        raise typer.BadParameter(f"{text!r}: expected {error.rule}", param_hint="--proxy") from None


def _server(text: str) -> tuple[str, str]:
    from ....client.connection.cluster import parse_addresses
    from ....model.security.principals import check_public_key

    address, _, public = text.partition("=")
    with usage_of_values():
        return parse_addresses("--server", address)[0], check_public_key(public)


def _place(out: str) -> str:
    """Where to write the file that the caller names. Raises typer.BadParameter if its directory is not there."""
    path = os.path.expanduser(out)
    directory = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(directory):
        raise typer.BadParameter(f"there is no directory {directory}", param_hint="--out")
    return path


def _own_place(user: str) -> str:
    directory = os.path.expanduser(os.path.join("~", ".zenit", "keys"))
    os.makedirs(directory, mode=0o700, exist_ok=True)
    return os.path.join(directory, f"{user}.key")


def _own_servers() -> dict[str, tuple[str, ...]]:
    """The name servers of the caller's own key file; nothing if there is none."""
    from ....client.connection.client_keys import key_path
    from ....client.connection.cluster import name_servers
    from ....remoting.security.key_file import read_key_file

    path = key_path(None, name_servers(None))
    return dict(read_key_file(path).servers) if path else {}


def _document(path: str, key: KeyFile) -> dict[str, Any]:
    servers = {address: keys[0] if len(keys) == 1 else list(keys) for address, keys in key.servers.items()}
    return {"user": key.user, "public": key.pair.public, "path": path, "servers": servers}


def _print(path: str, key: KeyFile, as_json: bool) -> None:
    document = _document(path, key)
    show(document, as_json, lambda: print_facts(document))
