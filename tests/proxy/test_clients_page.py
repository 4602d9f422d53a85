"""docs/guide/rocketmq-clients/: the programs of these pages run as they stand, but for the addresses."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from classic_clients import (
    CPP_CLIENT,
    GO_CLIENT,
    GO_DRIVER,
    JAVA_NAME,
    JAVA_VERSIONS,
    cpp_python,
    go_driver,
    has_java,
)
from classic_kit import running_front
from proxy_clients import (
    JAVA_CLIENT,
    NODE_CLIENT,
    PYTHON_CLIENT,
    RUST_CLIENT,
    compile_rust,
    has_jars,
    jars_folder,
    needs_client,
    node_modules,
    python_client,
    rust_project,
)
from proxy_kit import running_proxy

from zenitmq import Admin
from zenitmq.model.security.principals import RuleEffect, User
from zenitmq.model.security.rule_text import parse_rule
from zenitmq.testing import LocalCluster

PAGES = Path(__file__).parents[2] / "docs" / "guide" / "rocketmq-clients"
OVERVIEW = PAGES.with_suffix(".md")
APIS, ACL = "org.apache.rocketmq.client.apis", "org.apache.rocketmq.acl.common"
STATIC = f'new {APIS}.StaticSessionCredentialsProvider("shop", "SECRET")'
HOOK = f'new {ACL}.AclClientRPCHook(new {ACL}.SessionCredentials("shop", "SECRET"))'
GO = 'WithCredentials(primitive.Credentials{AccessKey: "shop", SecretKey: "SECRET"})'
SIGNS = {
    "python": [('Credentials("", "")', 'Credentials("shop", "SECRET")')],
    "java": [(".enableSsl(false)", f".enableSsl(false).setCredentialProvider({STATIC})")],
    "node": [("namespace: ''", "namespace: '', sessionCredentials: { accessKey: 'shop', accessSecret: 'SECRET' }")],
    "rust": [
        ("    option.set_enable_tls", f'    option.set_{name}_key("{value}");\n    option.set_enable_tls')
        for name, value in (("access", "shop"), ("secret", "SECRET"))
    ],
    "java-remoting": [
        (start, f"{start[:-1]}, {HOOK})") for start in ('MQProducer("shop")', 'LitePullConsumer("shipping")')
    ],
    "go": [(f"{kind}.WithGroupName", f"{kind}.{GO}, {kind}.WithGroupName") for kind in ("producer", "consumer")],
    "cpp": [
        (f"{kind}.start()", f'{kind}.set_session_credentials("shop", "SECRET", "")\n{kind}.start()')
        for kind in ("producer", "consumer")
    ],
}
"""What each page says of signing, done to its program."""
Command = Callable[[str, Path], list[str]]


def program(page: str, language: str) -> str:
    text = (PAGES / f"{page}.md").read_text("utf-8")
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.fixture(scope="module")
def orders(cluster: LocalCluster) -> LocalCluster:
    cluster.create_topic("orders")
    return cluster


def with_python(python: Path | None) -> Command:
    def command(text: str, folder: Path) -> list[str]:
        file = folder / "orders.py"
        file.write_text(text)
        return [str(python), str(file)]

    return command


def with_java(name: str, version: str) -> Command:
    def command(text: str, folder: Path) -> list[str]:
        file = folder / "Orders.java"
        file.write_text(text)
        classes = f"{jars_folder(name, version) / 'lib'}/*"
        return ["java", "-XX:TieredStopAtLevel=1", f"-Duser.home={folder}", "-cp", classes, str(file)]

    return command


def with_go(text: str, folder: Path) -> list[str]:
    for name in ("go.mod", "go.sum"):
        shutil.copy(GO_DRIVER / name, folder)
    (folder / "main.go").write_text(text)
    subprocess.run(
        ["go", "build", "-o", "orders", "."], cwd=folder, check=True, env={**os.environ, "GOFLAGS": "-mod=mod"}
    )
    return [str(folder / "orders")]


def with_node(text: str, folder: Path) -> list[str]:
    file = folder / "orders.js"
    file.write_text(text)
    return ["env", f"NODE_PATH={node_modules()}", f"HOME={folder}", "node", str(file)]


def with_rust(text: str, folder: Path) -> list[str]:
    return [str(compile_rust(text, program("rust", "toml")))]


GRPC = [
    pytest.param(
        "python",
        "py",
        with_python(python_client()),
        marks=needs_client(PYTHON_CLIENT, is_there=python_client() is not None),
    ),
    pytest.param(
        "java",
        "java",
        with_java(*JAVA_CLIENT),
        marks=needs_client("-".join(JAVA_CLIENT), is_there=has_jars(*JAVA_CLIENT)),
    ),
    pytest.param(
        "node", "js", with_node, marks=needs_client("-".join(NODE_CLIENT), is_there=node_modules() is not None)
    ),
    pytest.param("rust", "rust", with_rust, marks=needs_client(RUST_CLIENT, is_there=rust_project() is not None)),
]
NEW_JAVA, OLD_JAVA = (
    pytest.param(
        "java-remoting",
        "java",
        with_java(JAVA_NAME, version),
        marks=needs_client(f"{JAVA_NAME}-{version}", is_there=has_java(version)),
        id=f"java-remoting-{version}",
    )
    for version in JAVA_VERSIONS
)
CLASSIC = [
    NEW_JAVA,
    pytest.param("go", "go", with_go, marks=needs_client(GO_CLIENT, is_there=go_driver() is not None)),
    pytest.param(
        "cpp", "py", with_python(cpp_python()), marks=needs_client(CPP_CLIENT, is_there=cpp_python() is not None)
    ),
]


def check(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stdout.splitlines() if line]
    assert len(told) >= 2, told
    assert "one order" in told[1:]


@pytest.mark.parametrize(("page", "language", "command"), GRPC)
def test_by_grpc(orders: LocalCluster, tmp_path: Path, page: str, language: str, command: Command) -> None:
    with running_proxy(orders.namesrv) as address:
        text = program(page, language)
        assert "127.0.0.1:8081" in text
        check(command(text.replace("127.0.0.1:8081", address), tmp_path))


@pytest.mark.parametrize(("page", "language", "command"), [*CLASSIC, OLD_JAVA])
def test_by_remoting(orders: LocalCluster, tmp_path: Path, page: str, language: str, command: Command) -> None:
    with running_front(orders.namesrv) as front:
        text = program(page, language)
        assert "127.0.0.1:8080" in text
        check(command(text.replace("127.0.0.1:8080", front.address), tmp_path))


@pytest.fixture(scope="module")
def secured() -> Iterator[tuple[LocalCluster, str]]:
    """A secured cluster with the overview's user and rules, and its secret."""
    commands = re.findall(r"^zenit policy allow shop (\S+) (\S+)$", OVERVIEW.read_text("utf-8"), re.MULTILINE)
    assert len(commands) == 3
    rules = tuple(parse_rule(RuleEffect.ALLOW, actions, target.replace("billing", "*")) for actions, target in commands)
    with LocalCluster(secure=True) as cluster:
        cluster.create_topic("orders")
        with Admin(cluster.namesrv) as admin:
            admin.put_security_row(User("shop", (), rules=rules))
            yield cluster, admin.make_secret("shop").secret


@pytest.mark.parametrize(("page", "language", "command"), [*GRPC, *CLASSIC])
def test_with_keys(
    secured: tuple[LocalCluster, str], tmp_path: Path, page: str, language: str, command: Command
) -> None:
    """As the page says how a program signs."""
    cluster, secret = secured
    text = program(page, language)
    for unsigned, signed in SIGNS[page]:
        assert unsigned in text
        text = text.replace(unsigned, signed)
    with (
        running_proxy(cluster.namesrv, key=cluster.key()) as address,
        running_front(cluster.namesrv, key=cluster.key()) as front,
    ):
        text = text.replace("127.0.0.1:8081", address).replace("127.0.0.1:8080", front.address)
        check(command(text.replace("SECRET", secret), tmp_path))
