"""The pages docs/reference/*.md, made from the signatures and docstrings of what users may call.

The source is parsed, not imported, so that the compiled and the interpreted kernel give the same page. A method that is given
its public name by `send = blocking(Core._send)` (or by `send = Core._send`, for asyncio) is shown under that name.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import zenitmq

ROOT = Path(__file__).parents[1]
AIO = "zenitmq.aio"
LINE_LENGTH = 110
MADE_BY_US = {"SendFuture", "ReplyFuture", "TopicRoute"}  # nobody else makes one


@dataclass(frozen=True)
class Page:
    """One page: its file's stem, its title, what stands before the entries, and the entries as (module, name)."""

    stem: str
    title: str
    intro: str
    entries: tuple[tuple[str, str], ...]


class Method(NamedTuple):
    """Where it is defined, by which module, and whether it is called with `await`."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    module: str
    awaited: bool


@dataclass
class Members:
    """What a class shows, its own before what it inherits."""

    methods: dict[str, Method] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)


def face(names: str) -> tuple[tuple[str, str], ...]:
    """(module, name) of names that `zenitmq` re-exports."""
    return tuple(("zenitmq", name) for name in names.split())


ERRORS = tuple(
    sorted(
        name
        for name in zenitmq.__all__
        if isinstance(getattr(zenitmq, name), type) and issubclass(getattr(zenitmq, name), zenitmq.ZenitError)
    )
)

PAGES = (
    Page(
        "sending",
        "Sending: every name",
        "`from zenitmq import ...`. Which way to send when: [sending](../guide/sending.md).",
        (
            *face("Producer Message SendReceipt SendStatus SendFuture BatchReceipt FailedSend LatencyTable"),
            *face("TransactionProducer TransactionReceipt TransactionState Resolution"),
            ("zenitmq.client.producer", "ReplyFuture"),
            ("zenitmq.client.producer", "RequestStatistics"),
            ("zenitmq.client.producer", "TraceStatistics"),
        ),
    ),
    Page(
        "consuming",
        "Consuming: every name",
        "`from zenitmq import ...`. How to use them: [consuming](../guide/consuming.md).",
        (
            *face("PullConsumer PushConsumer SimpleConsumer LiteConsumer SimpleStatistics"),
            *face("AppendInterceptor StoredMessage MessageBatch MessageQueue QueueOffset PhysicalOffset"),
            *face(
                "ConsumeResult FlowLimits MessagesLost StartFrom FIRST LAST MessageModel CLUSTERING BROADCASTING Sql"
            ),
            ("zenitmq.client.consuming.allocation", "averaging"),
            ("zenitmq.client.consuming.allocation", "averaging_by_circle"),
            *face("consistent_hash by_configuration by_machine_room nearby_machine_room"),
            ("zenitmq.client.push_consumer", "PushStatistics"),
        ),
    ),
    Page(
        "admin",
        "Administration: every name",
        "`from zenitmq import Admin`. A document is a dictionary of JSON values, the same that `zenit ... --json` prints.\n"
        "`timeout`: seconds of a call in all; None = the one given to `Admin`.",
        (
            *face("Admin QueryPage TopicRoute metrics_collector MetricsCollector"),
            ("zenitmq.client.administration.admin_dead_letters", "DeadLetter"),
        ),
    ),
    Page(
        "asyncio",
        "Asyncio: every name",
        "`from zenitmq.aio import ...`. The arguments and errors of [sending](sending.md), [consuming](consuming.md) and\n"
        "[administration](admin.md), as coroutines. How to use them: [asyncio](../guide/asyncio.md).",
        (
            (AIO, "Producer"),
            (AIO, "TransactionProducer"),
            (AIO, "PullConsumer"),
            (AIO, "PushConsumer"),
            (AIO, "SimpleConsumer"),
            (AIO, "LiteConsumer"),
            (AIO, "Admin"),
        ),
    ),
    Page(
        "testing",
        "For your tests: every name",
        "`from zenitmq.testing import LocalCluster, MemoryCluster`; for pytest's fixtures put\n"
        '`pytest_plugins = ["zenitmq.testing.pytest_plugin"]` into `conftest.py`.',
        (
            ("zenitmq.testing.local_cluster", "LocalCluster"),
            ("zenitmq.testing.memory_cluster", "MemoryCluster"),
            ("zenitmq.testing.containers", "ZenitContainer"),
            *(
                ("zenitmq.testing.pytest_plugin", name)
                for name in (
                    *("zenit_cluster", "zenit_namesrv", "zenit_topic", "new_zenit_cluster", "zenit_container"),
                    "zenit_memory",
                )
            ),
        ),
    ),
    Page(
        "spark",
        "Spark: every name",
        'Most of it needs no name of ours: `spark.read.format("zenit")` ([Spark](../pipeline.md)). Beside that there are:',
        (
            ("zenitmq.pipeline.session", "spark_session"),
            *(("zenitmq.pipeline.jobs.archive", name) for name in ("ArchiveOptions", "plan", "run")),
            ("zenitmq.pipeline.lag", "LagListener"),
        ),
    ),
    Page(
        "errors",
        "Errors",
        "`from zenitmq import ...`. All derive from `ZenitError`. Each class says what a caller may do: `retriable`, the same\n"
        "call may succeed later; `route_stale`, the client asks the name servers again first; `code`, the number on the wire.\n"
        "What an error knows are its attributes.",
        face(" ".join(("ZenitError", *(name for name in ERRORS if name != "ZenitError")))),
    ),
)


def file_of(module: str) -> Path:
    path = ROOT.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(file_of(module).read_text(encoding="utf-8"))


def source_lines(module: str, node: ast.stmt) -> str:
    """The lines of a statement with the comments on them, less their indentation."""
    lines = file_of(module).read_text(encoding="utf-8").splitlines()[node.lineno - 1 : node.end_lineno]
    return "\n".join(line[node.col_offset :] for line in lines)


def defines(node: ast.stmt, name: str) -> bool:
    """Whether a statement defines the name."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name == name
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def imported_from(module: str, node: ast.ImportFrom) -> str:
    """The module that a relative import names."""
    parts = module.split(".")
    package = parts if file_of(module).name == "__init__.py" else parts[:-1]
    return ".".join([*package[: len(package) - node.level + 1], *(node.module.split(".") if node.module else ())])


def definition(module: str, name: str) -> tuple[str, ast.stmt] | None:
    """Where a name that a module shows is defined: in it, or where its imports lead. None where that is not ours."""
    tree = tree_of(module)
    for node in tree.body:
        if defines(node, name):
            return module, node
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level and any(alias.name == name for alias in node.names):
            return definition(imported_from(module, node), name)
    return None


def bodies_of(module: str, node: ast.ClassDef) -> Iterator[tuple[str, ast.ClassDef]]:
    """A class of ours, then those of ours that it derives from, each with its module."""
    yield module, node
    for base in node.bases:
        found = definition(module, ast.unparse(base).partition("[")[0])
        if found is not None and isinstance(found[1], ast.ClassDef):
            yield from bodies_of(found[0], found[1])


def given_name(value: ast.expr | None) -> tuple[str, bool] | None:
    """Of `blocking(Core._send)`, `Core._send` or `_send`: ("_send", whether it stays a coroutine)."""
    stays = True
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "blocking":
        value, stays = value.args[0], False
    if isinstance(value, ast.Attribute) and value.attr.startswith("_"):
        return value.attr, stays
    if isinstance(value, ast.Name) and value.id.startswith("_"):
        return value.id, stays
    return None


def members_of(module: str, node: ast.ClassDef) -> Members:
    """The public members of a class; those of our classes that it derives from come after its own."""
    bodies = [(home, base.body) for home, base in bodies_of(module, node)]
    functions = {
        node.name: (node, home)
        for home, body in reversed(bodies)
        for node in body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    members = Members()
    for home, body in bodies:
        for part in body:
            if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name):
                public = part.targets[0].id
                given = given_name(part.value)
                if given is not None and given[0] in functions:
                    members.methods.setdefault(public, Method(*functions[given[0]], given[1]))
                elif not public.startswith("_"):
                    declared = "cython" in ast.unparse(part.value)  # an attribute of a compiled class
                    members.fields.setdefault(public, public if declared else source_lines(home, part))
            elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                if not part.target.id.startswith("_"):
                    members.fields.setdefault(part.target.id, source_lines(home, part))
            elif isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and not part.name.startswith("_"):
                members.methods.setdefault(
                    part.name, Method(*functions[part.name], isinstance(part, ast.AsyncFunctionDef))
                )
    if "__init__" in functions:
        members.methods.setdefault("__init__", Method(*functions["__init__"], False))
    return members


def signature(module: str, node: ast.FunctionDef | ast.AsyncFunctionDef, name: str, *, awaited: bool) -> str:
    """`name(arguments) -> result` as it is called: without `self`; over several lines where it is long."""
    parts = list(argument_texts(module, node.args))
    result = "" if node.returns is None or name[:1].isupper() else f" -> {ast.unparse(node.returns)}"
    call = f"{'await ' if awaited else ''}{name}"
    text = f"{call}({', '.join(parts)}){result}"
    return (
        text if len(text) <= LINE_LENGTH else f"{call}(\n" + "".join(f"    {part},\n" for part in parts) + f"){result}"
    )


def argument_texts(module: str, given: ast.arguments) -> Iterator[str]:
    """Each argument of a signature, but `self`."""
    plain = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [*[None] * (len(plain) - len(given.defaults)), *given.defaults]
    for argument, default in zip(plain, defaults, strict=True):
        if argument.arg != "self":
            yield argument_text(module, argument, default)
    if given.vararg is not None:
        yield f"*{argument_text(module, given.vararg, None)}"
    elif given.kwonlyargs:
        yield "*"
    for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield argument_text(module, argument, default)
    if given.kwarg is not None:
        yield f"**{argument_text(module, given.kwarg, None)}"


def argument_text(module: str, argument: ast.arg, default: ast.expr | None) -> str:
    kind = "" if argument.annotation is None else f": {ast.unparse(argument.annotation)}"
    kind = kind.replace("cython.Py_ssize_t", "int")
    return f"{argument.arg}{kind}" + ("" if default is None else f" = {default_text(module, default)}")


def default_text(module: str, default: ast.expr) -> str:
    """A default as a reader understands it: a constant of ours by its value, if that is a number, a text or several."""
    text = ast.unparse(default)
    value = eval(text, vars(import_module(module)))
    return repr(value).replace("'", '"') if isinstance(value, int | float | str | tuple) else text


def docstring(node: ast.AST) -> list[str]:
    text = ast.get_docstring(node) if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) else None
    return [text, ""] if text else []


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(decorator) == "property" for decorator in node.decorator_list)


def block(text: str) -> list[str]:
    return ["```text", text, "```", ""]


def class_entry(module: str, name: str, node: ast.ClassDef) -> list[str]:
    members = members_of(module, node)
    lines = [f"## {name}", "", *docstring(node)]
    init = members.methods.pop("__init__", None)
    if init is not None and name not in MADE_BY_US and not isinstance(init.node.body[0], ast.Raise):
        lines += [*block(signature(init.module, init.node, name, awaited=False)), *docstring(init.node)]
    if members.fields:
        lines += block("\n".join(members.fields.values()))
    properties = {key: method.node for key, method in members.methods.items() if is_property(method.node)}
    if properties:
        lines += ["| attribute | type | is |", "|---|---|---|"]
        lines += [property_row(key, value) for key, value in properties.items()]
        lines += [""]
    for key, method in members.methods.items():
        if key not in properties:
            text = signature(method.module, method.node, key, awaited=method.awaited)
            lines += [f"### {name}.{key}", "", *block(text), *docstring(method.node)]
    return lines


def property_row(name: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    kind = "" if node.returns is None else ast.unparse(node.returns).replace("|", "\\|")
    text = " ".join((ast.get_docstring(node) or "").split()).replace("|", "\\|")
    return f"| `{name}` | `{kind}` | {text} |"


def error_entry(module: str, name: str, node: ast.ClassDef) -> list[str]:
    cls = getattr(zenitmq, name)
    bases = ", ".join(f"`{base.__name__}`" for base in cls.__bases__)
    flags = "".join(f", {flag}" for flag in ("retriable", "route_stale") if getattr(cls, flag))
    lines = [f"## {name}", "", *docstring(node)]
    return [*lines, f"Derives from {bases}; code {cls.code}{flags.replace('_', ' ')}.", ""]


def shown(module: str, name: str) -> tuple[str, ast.stmt]:
    """Where an entry of a page is defined."""
    found = definition(module, name)
    if found is None:
        raise LookupError(f"{module} does not show {name}")
    return found


def entry(shown_by: str, name: str) -> list[str]:
    module, node = shown(shown_by, name)
    if isinstance(node, ast.ClassDef):
        return error_entry(module, name, node) if name in ERRORS else class_entry(module, name, node)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        fixture = any("fixture" in ast.unparse(decorator) for decorator in node.decorator_list)
        text = signature(module, node, name, awaited=False)
        if fixture and node.returns is not None:
            text = f"{name}: {ast.unparse(node.returns)}"
        return [f"## {name}", "", *block(text), *docstring(node)]
    return [f"## {name}", "", *block(source_lines(module, node))]


def other_errors() -> list[str]:
    """A table of the errors that are seldom caught by name."""
    rows = []
    for name, cls in sorted(vars(zenitmq.errors).items()):
        if isinstance(cls, type) and issubclass(cls, zenitmq.ZenitError) and name not in ERRORS:
            says = " ".join((inspect.getdoc(cls) or "").split()).replace("|", "\\|")
            rows.append(f"| `{name}` | {cls.code} | {'yes' if cls.retriable else ''} | {says} |")
    head = [
        "## Other errors",
        "",
        "Of `zenitmq.errors`.",
        "",
        "| error | code | retriable | is raised for |",
        "|---|---|---|---|",
    ]
    return [*head, *rows, ""]


def page_text(page: Page) -> str:
    """The whole page."""
    made = "Made from the code: `ZENIT_REWRITE_DOCS=1 pytest tests/architecture` writes this page."
    lines = [f"# {page.title}", "", page.intro, "", made, ""]
    for module, name in page.entries:
        lines += entry(module, name)
    if page.stem == "errors":
        lines += other_errors()
    return "\n".join(lines).rstrip() + "\n"
