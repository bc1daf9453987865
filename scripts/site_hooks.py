"""What the site's builder does beyond its settings: pages of the root, formats in the navigation, plots and tables.

KVFORMAT_REPOSITORY in the environment is the address of the repository on the web. Without it the address is that of
the git remote `origin`, if that is on the web. With an address, the footer and the files that pages name link to the
source.
"""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
from itertools import cycle
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
OF_ROOT = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}
"""Pages that stand in the repository's root, and what they are called on the site."""
FETCHED = re.compile(r'<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)="((?:https?:)?//[^"]*)"')
"""What a browser would fetch from elsewhere."""
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#:\s]+)((?:#[^)]*)?)\)")
FORMATS = "formats/"
REMOTE = re.compile(r"(?:https?://|ssh://)?(?:[^@/]*@)?([\w.-]+)(?::\d+(?=/)|:|/)([\w./~-]+?)(?:\.git)?/?")
"""Host and path in the address of a git remote, without its scheme, port, user and password."""


def repository() -> str:
    """The repository's address on the web, without a password; empty if it is not known."""
    if told := os.environ.get("KVFORMAT_REPOSITORY"):
        return told.rstrip("/")
    command = ["git", "-C", str(ROOT), "remote", "get-url", "origin"]
    try:
        remote = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # there is no git
        return ""
    return web_address(remote)


def web_address(remote: str) -> str:
    """The web page of a git remote, `https://host/owner/name`; empty for a folder or a server without a name."""
    match = REMOTE.fullmatch(remote)
    if not match or "." not in match[1].strip(".") or match[1].startswith("."):
        return ""
    return f"https://{match[1]}/{match[2].strip('/')}"


def on_config(config: Any) -> Any:
    """Sets the repository's address; adds the formats' pages to the navigation, in the order of their first page."""
    if address := repository():
        # Not repo_url: for that the theme's script asks GitHub for stars, and nothing is fetched from elsewhere.
        config.extra["repository"] = address
        config.extra["social"] = [{"icon": "fontawesome/brands/git-alt", "link": address, "name": "The source"}]
    folder = Path(config.docs_dir) / FORMATS
    linked = [link[2] for link in LINK.finditer((folder / "index.md").read_text(encoding="utf-8"))]
    there = sorted(page.name for page in folder.glob("*.md"))
    names = [name for name in dict.fromkeys(("index.md", *linked, *there)) if name in there]
    for section in config.nav:
        for pages in section.values():
            if FORMATS in pages:
                place = pages.index(FORMATS)
                pages[place : place + 1] = [FORMATS + name for name in names]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages of the root."""
    for name, page in OF_ROOT.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Points links to their pages on the site. Links to other files go to the repository, or become text."""
    on_site = page.file.src_uri
    folder = "" if on_site in OF_ROOT.values() else posixpath.join("docs", posixpath.dirname(on_site))

    def placed(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        if target in OF_ROOT or target.startswith("docs/"):
            place = OF_ROOT.get(target, target.removeprefix("docs/"))
            return f"[{link[1]}]({posixpath.relpath(place, posixpath.dirname(on_site) or '.')}{link[3]})"
        if not (ROOT / target).exists():
            return link[0]
        if address := config.extra.get("repository"):
            return f"[{link[1]}]({address}/blob/HEAD/{target}{link[3]})"
        return f"{link[1]} (`{target}` in the repository)"

    return LINK.sub(placed, markdown)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Labels the cells of wide tables, and puts pictures into their pages, whose colours they then take."""

    def within(image: re.Match[str]) -> str:
        svg = ROOT / "docs" / posixpath.dirname(page.file.src_uri) / image[1]
        return svg.read_text(encoding="utf-8")

    html = re.sub(r"<table>.*?</table>", stacked, html, flags=re.DOTALL)
    return re.sub(r'<img [^>]*src="([^":]+\.svg)"[^>]*>', within, html)


def stacked(table: re.Match[str]) -> str:
    """A wide table of words, whose cells say their column: on a phone they stand below each other (site.css)."""
    heads = [re.sub("<[^>]*>", "", head) for head in re.findall(r"<th>(.*?)</th>", table[0], re.DOTALL)]
    if len(heads) < 4 or "text-align" in table[0]:  # numbers stand better in columns
        return table[0]
    labels = cycle(heads)
    cells = re.sub("<td>", lambda _: f'<td data-label="{next(labels)}">', table[0])
    return cells.replace("<table>", "<table data-stacked>")


def on_post_page(output: str, page: Any, **_: Any) -> None:
    """Refuses a page that a browser would have to fetch something for from elsewhere."""
    if found := FETCHED.findall(output):
        raise PluginError(f"{page.file.src_uri} would fetch {', '.join(found)}: put it into docs/")
