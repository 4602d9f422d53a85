"""Pages under docs/ that repeat what code knows are held to the code; ZENIT_REWRITE_DOCS=1 writes them anew."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from zenitmq.broker.config import BrokerConfig
from zenitmq.controller.config import ControllerConfig
from zenitmq.model.config import SettingInfo, config_schema
from zenitmq.model.events.table import EVENTS
from zenitmq.namesrv.config import NameServerConfig
from zenitmq.pipeline.options.option import Option
from zenitmq.pipeline.options.options import READ_OPTIONS, WRITE_OPTIONS
from zenitmq.pipeline.schema import COLUMNS
from zenitmq.proxy.config import ProxyConfig
from zenitmq.record.layout import LAYOUTS, Layout

ROOT = Path(__file__).parents[2]
FORMATS = ROOT / "docs" / "formats"
REWRITE = "ZENIT_REWRITE_DOCS" in os.environ
MARKED = re.compile(r"(<!-- table: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
ROLES = {"namesrv": NameServerConfig, "broker": BrokerConfig, "controller": ControllerConfig, "proxy": ProxyConfig}


def hold(path: Path, expected: str) -> None:
    """The page is what it should be; rewritten first where that was asked for."""
    if REWRITE:
        path.write_text(expected, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == expected


def layout_table(layout: Layout) -> str:
    total = "varies" if layout.size_bytes is None else f"{layout.size_bytes} bytes"
    lines = [f"**{layout.title}** ({total})", "", "| at | bytes | field | meaning |", "|---|---|---|---|"]
    for field in layout.fields:
        at = "" if field.at is None else str(field.at)
        lines.append(f"| {at} | {field.size} | {field.name} | {field.meaning} |")
    return "\n".join(lines) + "\n"


def with_tables(text: str, table_of: Callable[[str], str]) -> str:
    """The page with what stands between its marks made anew."""
    return MARKED.sub(lambda mark: mark[1] + table_of(mark[2]) + mark[4], text)


@pytest.mark.parametrize("page", sorted(path.name for path in FORMATS.glob("*.md")))
def test_a_format_page_shows_the_layouts_of_the_code(page: str) -> None:
    layouts = {layout.name: layout for layout in LAYOUTS}
    path = FORMATS / page
    hold(path, with_tables(path.read_text(encoding="utf-8"), lambda name: layout_table(layouts[name])))


def test_every_layout_has_a_page() -> None:
    shown = [mark[2] for path in FORMATS.glob("*.md") for mark in MARKED.finditer(path.read_text(encoding="utf-8"))]
    assert sorted(shown) == sorted(layout.name for layout in LAYOUTS)


def setting_row(info: SettingInfo, role: str) -> str:
    default = ",".join(info.default) if isinstance(info.default, tuple) else str(info.default)
    default = default.lower() if isinstance(info.default, bool) else default
    online = " (takes effect without a restart)" if info.online else ""
    meaning = (info.meaning + online).replace("|", "\\|")
    return f"| `{info.key}` | {f'`{default}`' if default else ''} | {info.expected} | {meaning} |"


CONFIGURATION_HEAD = """# Configuration

Made from the code; `zenit config schema ROLE` prints the same. A later source wins: the default, then the file
(`--config FILE`, TOML; `store.segment_bytes` is `segment_bytes` in the table `[store]`), then the environment
(`ZENIT_BROKER__PORT` for a role's own keys, `ZENIT_STORE__SEGMENT_BYTES` for a table's), then `--set key=value`.
Unknown keys and values out of range are refused at start. The running values are logged at start, and printed by
`zenit broker config`."""


def configuration_page() -> str:
    parts = [CONFIGURATION_HEAD]
    for role, cls in ROLES.items():
        parts += ["", f"## {role}", "", "| key | default | expected | meaning |", "|---|---|---|---|"]
        parts += [setting_row(info, role) for info in config_schema(cls)]
    return "\n".join(parts) + "\n"


def test_the_configuration_page_lists_every_setting() -> None:
    hold(ROOT / "docs" / "configuration.md", configuration_page())


LEVELS = {20: "info", 30: "warning", 40: "error", 50: "critical"}


def events_table(_: str) -> str:
    rows = [
        f"| `{kind.name}` | {LEVELS[kind.level]} | {' '.join(f'`{field}`' for field in kind.fields)} | {kind.help} |"
        for kind in EVENTS.values()
    ]
    return "\n".join(["| event | level | fields | meaning |", "|---|---|---|---|", *rows]) + "\n"


def test_the_events_page_lists_every_event() -> None:
    path = ROOT / "docs" / "events.md"
    hold(path, with_tables(path.read_text(encoding="utf-8"), events_table))


def option_rows(options: tuple[Option, ...]) -> list[str]:
    meanings = {"both": "", "batch": " (batch)", "stream": " (stream)"}
    return [
        f"| `{option.name}` | {f'`{option.default}`' if option.default else ''} |"
        f" {option.meaning.replace('|', chr(92) + '|')}{meanings[option.used_by]} |"
        for option in options
    ]


def pipeline_table(name: str) -> str:
    if name == "columns":
        rows = [f"| {column.name} | `{column.spark.simpleString()}` | {column.meaning} |" for column in COLUMNS]
        return "\n".join(["| column | type | what it is |", "|---|---|---|", *rows]) + "\n"
    options = {"read_options": READ_OPTIONS, "write_options": WRITE_OPTIONS}[name]
    return "\n".join(["| option | default | meaning |", "|---|---|---|", *option_rows(options)]) + "\n"


def test_the_pipeline_page_shows_the_columns_and_options_of_the_code() -> None:
    path = ROOT / "docs" / "pipeline.md"
    text = path.read_text(encoding="utf-8")
    assert {mark[2] for mark in MARKED.finditer(text)} >= {"columns", "read_options"}
    hold(path, with_tables(text, pipeline_table))


def test_every_dependency_says_why() -> None:
    with open(ROOT / "pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    needed = {re.split(r"[<>=;\[ ]", requirement)[0] for requirement in project["dependencies"]}
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| (\w+) \| [A-Z].*\.? \|$", page, re.MULTILINE))
    assert told == needed
    extras = {re.split(r"[<>=;\[ ]", r)[0] for group in project["optional-dependencies"].values() for r in group}
    assert not {name for name in extras if name not in page}


def test_links_lead_somewhere() -> None:
    """Every relative link of the front pages and of docs/ names a file or folder that is there."""
    broken = []
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = page.read_text(encoding="utf-8")
        links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text) + re.findall(r'href="([^"]+)"', text)
        broken += [f"{page.name}: {link}" for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not broken
