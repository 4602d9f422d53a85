"""The command line itself: quick to start, one line for what is wrong, the right exit code, and no traceback."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from zenit_kit import run_zenit

from zenitmq.cli import command_table

ZENIT = str(Path(sys.executable).with_name("zenit"))
NOBODY = "127.0.0.1:9"  # the discard port: nothing of ours listens there
ROLES = {"namesrv", "broker", "controller"}
PARSER_PACKAGES = {"typer", "click", "typing_extensions", "annotated_doc", "shellingham"}

COMMANDS = [
    "up",
    "down",
    "status",
    "doctor",
    "debug bundle",
    "upgrade plan",
    "upgrade wait-in-sync",
    "events",
    "namesrv",
    "proxy",
    "broker",
    "broker config",
    "broker stats",
    "broker promote",
    "broker drain",
    "controller",
    "controller status",
    "controller elect",
    "controller remove",
    "controller restore",
    "controller settings",
    "top",
    "topic create",
    "topic list",
    "topic describe",
    "topic update",
    "topic lite",
    "topic compact",
    "topic delete",
    "request",
    "reply",
    "produce",
    "consume",
    "peek",
    "context add",
    "context use",
    "context list",
    "context remove",
    "tail",
    "group list",
    "group describe",
    "group reset-offset",
    "group delete",
    "group create",
    "group lite",
    "group update",
    "group clients",
    "group skip-backlog",
    "group clone-offsets",
    "dlq list",
    "dlq show",
    "dlq redrive",
    "message get",
    "message query",
    "message trace",
    "transaction list",
    "transaction show",
    "transaction commit",
    "transaction rollback",
    "cluster",
    "config schema",
    "config machines",
    "sbom make",
    "sbom check",
    "query-offsets list",
    "query-offsets show",
    "query-offsets drop",
    "backup run",
    "backup status",
    "backup verify",
    "restore",
    "store inspect",
    "store stats",
    "store verify",
    "store dump",
    "store export",
    "store import",
    "store cluster",
    "store join",
    "store leave",
    "store copy",
    "store convert",
    "store hand-over",
    "store repair",
    "store scrub",
    *(
        f"bench {work}"
        for work in (
            "produce",
            "consume",
            "e2e",
            "latency",
            "transactions",
            "pop",
            "limits",
            "restart",
            "catch-up",
            "backup",
            "proxy",
            "spark",
        )
    ),
    "sql",
    "drill list",
    "drill run",
    "drill campaign",
    "job list",
    "job run",
    "canary",
    "explain",
    "key new",
    "key cluster",
    "key rotate",
    "key secrets",
    "key show",
    "key trust",
    "policy allow",
    "policy deny",
    "policy import",
    "policy list",
    "policy remove",
    "role create",
    "role delete",
    "role list",
    "role show",
    "topic light-queues",
    "user add-key",
    "user add-role",
    "user create",
    "user delete",
    "user disable",
    "user enable",
    "user limit",
    "user list",
    "user remove-key",
    "user remove-role",
    "user remove-secret",
    "user secret",
    "user show",
]


def process(*arguments: str, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`zenit` as it is installed."""
    settings = {**os.environ, "HOME": str(home), **environment}
    settings.pop("ZENIT_NAMESRV", None)
    return subprocess.run(
        [ZENIT, *arguments], env=settings, cwd=home, capture_output=True, text=True, timeout=60, check=False
    )


def test_help_takes_less_than_150_ms_of_a_core(tmp_path: Path) -> None:
    """The best of several, since a core that is shared is slower."""
    times: list[float] = []
    while len(times) < 7 and not (times and times[-1] < 0.15):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert process("--help", home=tmp_path).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert times[-1] < 0.15, times


def loaded_by(tmp_path: Path, *arguments: str) -> set[str]:
    """The modules that a command has imported in the end."""
    code = (
        "import sys; sys.argv[0] = 'zenit'\n"
        "from zenitmq.cli.main import run\n"
        "try:\n    run()\n"
        "except SystemExit:\n    print(*sorted(sys.modules), file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    return set(done.stderr.split())


def test_help_loads_the_parser_and_the_errors_alone(tmp_path: Path) -> None:
    """No command, no client, and nobody's package but the parser's: what is added here is added to each start."""
    loaded = loaded_by(tmp_path, "--help")
    assert "zenitmq.cli.main" in loaded
    ours = {name for name in loaded if name.startswith("zenitmq.") and not name.startswith("zenitmq.model.errors")}
    assert ours == {
        *("zenitmq.model", "zenitmq.model.clock", "zenitmq.model.times"),
        *(
            "zenitmq.cli",
            *(
                f"zenitmq.cli.{name}"
                for name in (
                    "main",
                    "command_table",
                    "endings",
                    "help_text",
                    "options",
                    "output",
                    "user_option",
                    "watch",
                )
            ),
        ),
    }
    others = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names - {"zenitmq"}
    assert others <= {*PARSER_PACKAGES, *at_start()}


def at_start() -> set[str]:
    """What Python itself has imported before anything is asked of it: an editable install does that."""
    command = [sys.executable, "-c", "import sys; print(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split())


@pytest.mark.parametrize("asked", [("query-offsets", "list", "--help"), ("query-offsets", "--help")])
def test_a_command_loads_its_own_subject_only(asked: tuple[str, ...], tmp_path: Path) -> None:
    loaded = loaded_by(tmp_path, *asked)
    modules = {f"zenitmq.cli.{row.module}" for row in command_table.COMMANDS.values()}
    assert loaded & modules == {"zenitmq.cli.commands.query_offsets"}


RIGHT_GROUPS = (
    ["status", "broker-a"],
    ["elect", "broker-a"],
    ["settings", "broker-a"],
    ["remove", "broker-a", "broker-a-1"],
    ["restore", "broker-a", "--epoch", "3"],
)
"""What `zenit controller` takes."""
WRONG_GROUPS = (
    (["status", ""], "group name"),
    (["status", "a/b"], "a/b"),
    (["elect", "broker-a", "--replica", ""], "replica name"),
    (["elect", "broker-a", "--accept-loss"], "--force"),
    (["settings", "broker-a", "--min-in-sync", "0"], "--min-in-sync"),
    (["settings", "broker-a", "--flush", "perhaps"], "--flush"),
    (["remove", "broker-a"], "REPLICA"),
    (["remove", "broker-a", "a b"], "replica name"),
    (["restore", "broker-a"], "--epoch"),
    (["restore", "broker-a", "--epoch", "0"], "--epoch"),
    (["restore", "broker-a", "--epoch", "3", "--group-id", "none"], "32 hexadecimal digits"),
)
FILTERED = (["consume", "t", "--group", "g"], ["tail", "t"])


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, tmp_path: Path) -> None:
    done = run_zenit(*command.split(), "--help", home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Usage: zenit {command}")
    assert len(done.stdout.splitlines()) > 4


def test_every_command_is_listed_above(tmp_path: Path) -> None:
    """A command that is added is tested too."""
    listed: set[str] = set()
    for name in _commands_in(run_zenit("--help", home=tmp_path).stdout):
        below = _commands_in(run_zenit(name, "--help", home=tmp_path).stdout)
        listed |= {f"{name} {sub}" for sub in below} or {name}
    assert listed | {"broker", "controller"} == set(COMMANDS)


def _commands_in(help_text: str) -> list[str]:
    _, _, section = help_text.partition("\nCommands:\n")
    return [line.split()[0] for line in section.splitlines() if line.startswith("  ") and line[2] != " "]


def test_each_command_fits_its_line_of_the_help(tmp_path: Path) -> None:
    listed = _commands_in(run_zenit("--help", home=tmp_path).stdout)
    assert listed == list(command_table.COMMANDS)
    assert "..." not in run_zenit("--help", home=tmp_path).stdout.partition("Commands:")[2]


def test_without_arguments_it_shows_the_help(tmp_path: Path) -> None:
    assert "Commands:" in process(home=tmp_path).stdout


def test_the_version_tells_which_kernel_runs(tmp_path: Path) -> None:
    done = process("--version", home=tmp_path)
    assert done.stdout.startswith("zenit ")
    assert ("compiled" in done.stdout) != ("interpreted" in done.stdout)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nonsense"], "nonsense"),
        (["topic"], "zenit topic --help"),
        (["topic", "create"], "NAME"),
        (["topic", "create", "t", "--queues", "many"], "--queues"),
        (["topic", "create", "t", "--attr", "broken"], "name=value"),
        (["produce", "t", "--prop", "broken"], "name=value"),
        (["produce", "t", "--key-field", "0"], "--key-field"),
        (["consume", "t"], "--group"),
        (["consume", "t", "--group", "g", "--sql", "a > 1", "--filter", "b"], "--filter or --sql"),
        (["consume", "t", "--group", "g", "--from", "yesterday"], "yesterday"),
        (["topic", "list", "--namesrv", "nowhere"], "nowhere"),
        (["consume", "t", "--group", "g", "--format", "{nonsense}"], "nonsense"),
        (["bench", "nonsense"], "nonsense"),
        (["bench", "produce", "--rate", "5"], "--rate belongs to `zenit bench e2e`"),
        (["consume", "t", "--group", "g", "--json", "--format", "{body}"], "--format"),
        (["group", "reset-offset", "g", "--topic", "t", "--to", "soon"], "soon"),
        (["up", "--replicas", "99"], "1 to 9"),
        (["up", "--replicas", "2", "--no-controller", "--controllers", "1"], "--no-controller"),
        (["up", "--replicas", "2", "--no-controller", "--zookeeper", "a:1"], "a static master needs none"),
        (["up", "--zookeeper", "a:1"], "one replica has no controller"),
        (["up", "--controllers", "2"], "one replica has no controller"),
        (["up", "--replicas", "2", "--zookeeper", "nowhere"], "host:port"),
        (["config", "schema", "queen"], "namesrv, broker, controller"),
        (["message", "query", "--key", "k"], "--topic"),
        (["consume", "t", "--group", "g", "--sql", "a > 'ten'", "--namesrv", NOBODY], "character 5"),
        (["consume", "t", "--group", "g", "--filter", "a" * 20_000, "--namesrv", NOBODY], "at most 16384 characters"),
        (["consume", "t", "--group", "no good", "--namesrv", NOBODY], "no good"),
        (["broker", "--set", "store.segment_bites=1"], "segment_bytes"),
        (["broker", "--set", "port=-1"], "port"),
        (["namesrv", "--config", "/nonexistent.toml"], "/nonexistent.toml"),
        (["controller", "--set", "zookeeper="], "zookeeper"),
        (["controller", "--set", "zookeeper=nowhere"], "host:port"),
        (["controller", "--set", "probe_timeout_ms=5000"], "dead_after_ms"),
        (["controller", "--set", "cluster=a/b"], "cluster"),
        (["topic", "describe", "no good", "--namesrv", NOBODY], "no good"),
        (["tail", "t", "--filter", "a" * 20_000, "--namesrv", NOBODY], "at most 16384 characters"),
        (["context", "use", "nobody"], "zenit context add"),
        (["context", "remove", "nobody"], "zenit context add"),
        (["context", "add", "a.b", NOBODY], "a.b"),
        (["context", "add", "a", "nowhere"], "nowhere"),
        (["job", "run"], "zenit job list"),
        (["up", "--dir", ""], "--dir"),
        (["down", "--dir", ""], "--dir"),
        (["status", "--dir", ""], "--dir"),
        *((["controller", *rest, "--controllers", NOBODY], says) for rest, says in WRONG_GROUPS),
        (["controller", "elect", "broker-a", "--controllers", "nonsense"], "nonsense"),
        *(([*command, "--filter", "||"], "a || b") for command in FILTERED),
        *(([*command, "--filter", "a" * 16_385], "16384") for command in FILTERED),
        (["consume", "t", "--group", "g", "--sql", "a >"], "character 4"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(arguments: list[str], says: str, tmp_path: Path) -> None:
    done = (process if arguments[0] in ROLES else run_zenit)(*arguments, home=tmp_path)  # those begin as services do
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert says in done.stderr
    assert done.stderr.startswith("zenit: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("name", "value"), [("ZENIT_NAMESRV", "nowhere"), ("ZENIT_CONTEXT", "nobody")])
def test_an_environment_that_cannot_be_is_wrong_usage_too(name: str, value: str, tmp_path: Path) -> None:
    done = run_zenit("topic", "list", home=tmp_path, environment={name: value})
    assert (done.returncode, value in done.stderr, done.stderr.count("\n")) == (2, True, 1), done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["down"], "zenit up"),
        (["status"], "zenit up"),
        (["topic", "list", "--namesrv", NOBODY], NOBODY),
        (["produce", "t", "--file", "/nonexistent"], "/nonexistent"),
        (["store", "verify", "/nonexistent"], "/nonexistent"),
        *((["controller", *rest, "--controllers", NOBODY], NOBODY) for rest in RIGHT_GROUPS),
    ],
)
def test_what_fails_is_one_line_and_status_1(arguments: list[str], says: str, tmp_path: Path) -> None:
    done = process(*arguments, home=tmp_path)
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert says in done.stderr
    assert done.stderr.startswith("zenit: ")
    assert done.stderr.count("\n") == 1


def test_down_where_no_cluster_is_names_the_one_that_is(tmp_path: Path) -> None:
    """`status` shows the cluster that was started last wherever it lives; `down` ends that of ~/.zenit."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "cluster.json").write_text("{}")
    (tmp_path / ".zenit").mkdir()
    (tmp_path / ".zenit" / "last").write_text(f"{elsewhere}\n")
    done = run_zenit("down", home=tmp_path)
    assert (done.returncode, f"--dir {elsewhere}\n" in done.stderr, done.stderr.count("\n")) == (1, True, 1), (
        done.stderr
    )


@pytest.mark.parametrize("command", ["topic list", "context list", "context add b h:1", "context use a"])
def test_contexts_that_are_damaged_are_told_as_any_damaged_file(command: str, tmp_path: Path) -> None:
    file = tmp_path / ".config" / "zenit" / "contexts.json"
    file.parent.mkdir(parents=True)
    file.write_text("{")
    done = run_zenit(*command.split(), home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
    assert done.stderr.startswith(f"zenit: cannot open {file}: ")
    assert "remove it" in done.stderr
    assert file.read_text() == "{"


@pytest.mark.parametrize("role", ["namesrv", "broker", "controller"])
def test_the_schema_lists_every_setting(role: str, tmp_path: Path) -> None:
    rows = json.loads(run_zenit("config", "schema", role, "--json", home=tmp_path).stdout)
    assert {"port", "host"} <= {row["key"] for row in rows}
    assert all(row["meaning"] and row["expected"] and row["environment"].startswith("ZENIT_") for row in rows)
    table = run_zenit("config", "schema", role, home=tmp_path).stdout
    assert len(table.splitlines()) == len(rows) + 1


def test_a_key_is_written_into_a_directory_that_is_there(tmp_path: Path) -> None:
    done = run_zenit("key", "new", "app", "--out", "kyes/app.key", home=tmp_path)
    assert (done.returncode, f"there is no directory {tmp_path}/kyes" in done.stderr) == (2, True), done.stderr
    assert os.listdir(tmp_path) == []
    done = run_zenit("key", "new", "app", "--out", "app.key", home=tmp_path)
    assert (done.returncode, os.listdir(tmp_path)) == (0, ["app.key"])
    done = run_zenit("key", "new", "app", home=tmp_path)
    assert (done.returncode, os.listdir(tmp_path / ".zenit" / "keys")) == (0, ["app.key"])
