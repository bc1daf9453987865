"""Hooks of mkdocs for the documentation site: pages of the root folder, the navigation of formats, plots and tables.

The environment variable KVFORMAT_REPOSITORY is the address of the repository on the web. Without it, the hooks use the
address of the git remote `origin`, if it is on the web. With an address, the footer and the names of files link to the
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
"""Pages in the repository's root folder, and their names on the site."""
FETCHED = re.compile(r'<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)="((?:https?:)?//[^"]*)"')
"""Matches an element for which a browser would fetch a file from another server."""
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#:\s]+)((?:#[^)]*)?)\)")
FORMATS = "formats/"
REMOTE = re.compile(r"(?:https?://|ssh://)?(?:[^@/]*@)?([\w.-]+)(?::\d+(?=/)|:|/)([\w./~-]+?)(?:\.git)?/?")
"""Matches the address of a git remote. The groups are its host and path, without scheme, port, user and password."""


def repository() -> str:
    """Return the repository's address on the web without a password, or an empty string if it is not known."""
    if address := os.environ.get("KVFORMAT_REPOSITORY"):
        return address.rstrip("/")
    command = ["git", "-C", str(ROOT), "remote", "get-url", "origin"]
    try:
        remote = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # git is not installed
        return ""
    return web_address(remote)


def web_address(remote: str) -> str:
    """Return the web page of a git remote, `https://host/owner/name`.

    Returns an empty string if the remote is a folder or a server without a domain name.
    """
    match = REMOTE.fullmatch(remote)
    if not match or "." not in match[1].strip(".") or match[1].startswith("."):
        return ""
    return f"https://{match[1]}/{match[2].strip('/')}"


def on_config(config: Any) -> Any:
    """Set the repository's address, and add the formats' pages to the navigation in the order of `formats/index.md`."""
    if address := repository():
        # Not repo_url: with it, the theme's script asks GitHub for the number of stars. The site fetches nothing.
        config.extra["repository"] = address
        config.extra["social"] = [{"icon": "fontawesome/brands/git-alt", "link": address, "name": "The source"}]
    folder = Path(config.docs_dir) / FORMATS
    linked = [link[2] for link in LINK.finditer((folder / "index.md").read_text(encoding="utf-8"))]
    existing = sorted(page.name for page in folder.glob("*.md"))
    names = [name for name in dict.fromkeys(("index.md", *linked, *existing)) if name in existing]
    for section in config.nav:
        for pages in section.values():
            if FORMATS in pages:
                index = pages.index(FORMATS)
                pages[index : index + 1] = [FORMATS + name for name in names]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the root folder."""
    for name, page in OF_ROOT.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Rewrite links between pages to their paths on the site.

    Links to other files become links to the repository, or plain text if its address is not known.
    """
    on_site = page.file.src_uri
    folder = "" if on_site in OF_ROOT.values() else posixpath.join("docs", posixpath.dirname(on_site))

    def rewrite(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        if target in OF_ROOT or target.startswith("docs/"):
            path = OF_ROOT.get(target, target.removeprefix("docs/"))
            return f"[{link[1]}]({posixpath.relpath(path, posixpath.dirname(on_site) or '.')}{link[3]})"
        if not (ROOT / target).exists():
            return link[0]
        if address := config.extra.get("repository"):
            return f"[{link[1]}]({address}/blob/HEAD/{target}{link[3]})"
        return f"{link[1]} (`{target}` in the repository)"

    return LINK.sub(rewrite, markdown)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Label the cells of wide tables, and put SVG pictures inline, so that they have the colours of the page."""

    def inline(image: re.Match[str]) -> str:
        svg = ROOT / "docs" / posixpath.dirname(page.file.src_uri) / image[1]
        return svg.read_text(encoding="utf-8")

    html = re.sub(r"<table>.*?</table>", label_cells, html, flags=re.DOTALL)
    return re.sub(r'<img [^>]*src="([^":]+\.svg)"[^>]*>', inline, html)


def label_cells(table: re.Match[str]) -> str:
    """Label each cell of a wide table of words with its column. On a phone, cells are below each other (site.css)."""
    heads = [re.sub("<[^>]*>", "", head) for head in re.findall(r"<th>(.*?)</th>", table[0], re.DOTALL)]
    if len(heads) < 4 or "text-align" in table[0]:  # numbers are easier to read in columns
        return table[0]
    labels = cycle(heads)
    cells = re.sub("<td>", lambda _: f'<td data-label="{next(labels)}">', table[0])
    return cells.replace("<table>", "<table data-stacked>")


def on_post_page(output: str, page: Any, **_: Any) -> None:
    """Raise an error if a browser would have to fetch a file of the page from another server."""
    if found := FETCHED.findall(output):
        raise PluginError(f"{page.file.src_uri} would fetch {', '.join(found)} from a server: put the file into docs/")
