"""A hook of mkdocs: what docs/ links to outside of docs/ becomes pages of the site.

A source file becomes a page that shows it, a folder a page that lists its files with what each is for, CONTRIBUTING.md a
page like any other. So the site is whole by itself, and a link to a file that is not there ends the build.
"""

from __future__ import annotations

import ast
import html
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)\s]*)?\)")
CONTRIBUTING = "CONTRIBUTING.md"


def in_repository(src_uri: str) -> str:
    """Where a page of the site lies in the repository."""
    return src_uri if src_uri == CONTRIBUTING else f"docs/{src_uri}"


def in_site(place: str) -> str:
    """Where a file or folder of the repository is in the site."""
    if place.startswith("docs/"):
        return place.removeprefix("docs/")
    return place if place == CONTRIBUTING else f"source/{place}.html"


def targets(text: str, place: str) -> set[str]:
    """The files and folders of the repository that a page links to."""
    return {posixpath.normpath(posixpath.join(posixpath.dirname(place), link[1])) for link in LINK.finditer(text)}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are made of what lies outside of docs/."""
    contributing = (ROOT / CONTRIBUTING).read_text(encoding="utf-8")
    files.append(File.generated(config, CONTRIBUTING, content=contributing))
    wanted = {
        (target, page.src_uri)
        for page in files.documentation_pages()
        for target in targets(page.content_string, in_repository(page.src_uri))
        if in_site(target).startswith("source/")
    }
    for target, source in sorted(wanted):
        if not (ROOT / target).exists():
            raise PluginError(f"{source} links to {target}, which is not there")
    folders = {target for target, _ in wanted if (ROOT / target).is_dir()}
    inside = {f"{folder}/{name.name}" for folder in folders for name in listed(ROOT / folder)}
    for target in sorted({target for target, _ in wanted} | inside):
        content = folder_page(target) if target in folders else source_page(target)
        file = File.generated(config, in_site(target), content=content, inclusion=InclusionLevel.NOT_IN_NAV)
        files.append(file)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Has links to the repository's files lead to the pages made of them."""
    place = in_repository(page.file.src_uri)

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(place), link[1]))
        here = posixpath.dirname(page.file.src_uri) or "."
        return f"]({posixpath.relpath(in_site(target), here)}{link[2] or ''})"

    return LINK.sub(moved, markdown)


def listed(folder: Path) -> list[Path]:
    """The files of a folder that its page shows."""
    return sorted(path for path in folder.iterdir() if path.suffix in (".py", ".md", ".sh", ".toml", ".c"))


def purpose(path: Path) -> str:
    """The first line of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) if path.suffix == ".py" else None
    return (text or "").partition("\n")[0]


def folder_page(place: str) -> str:
    rows = "".join(
        f'<tr><td><a href="{posixpath.basename(place)}/{path.name}.html">{path.name}</a></td>'
        f"<td>{html.escape(purpose(path))}</td></tr>"
        for path in listed(ROOT / place)
    )
    return f"<!doctype html><meta charset=utf-8><title>{place}</title><h1>{place}</h1><table>{rows}</table>"


def source_page(place: str) -> str:
    """The file's text, each line with its number as its anchor."""
    lines = (ROOT / place).read_text(encoding="utf-8").splitlines()
    numbered = "\n".join(f'<span id="L{number}">{html.escape(line)}</span>' for number, line in enumerate(lines, 1))
    return f"<!doctype html><meta charset=utf-8><title>{place}</title><h1>{place}</h1><pre>{numbered}</pre>"
