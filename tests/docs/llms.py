"""What programs that read the documentation get: llms.txt, llms-full.txt, and every page as it was written.

MkDocs calls this (``hooks`` in mkdocs.yml) once the site is built. Order and sections are those of the navigation. The
form of llms.txt is that of llmstxt.org: a title, a summary, and sections of links.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def on_post_build(config: Any) -> None:
    """Write the files beside the pages."""
    docs, site = Path(config["docs_dir"]), Path(config["site_dir"])
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}"]
    pages = []
    section = None
    for where, name in listed(config["nav"]):
        text = (docs / name).read_text("utf-8")
        pages.append(f"<!-- {name} -->\n\n{text.strip()}\n")
        if where != section:
            section = where
            lines += ["", f"## {section}", ""]
        lines.append(f"- [{title(text)}]({name}): {summary(text)}")
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(docs / name, site / name)
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (site / "llms-full.txt").write_text("\n".join(pages), encoding="utf-8")


def listed(nav: list[Any], section: str = "Start") -> Iterator[tuple[str, str]]:
    """Each page with the section it stands in."""
    for entry in nav:
        if isinstance(entry, str):
            yield section, entry
        else:
            for name, below in entry.items():
                yield from listed(below, name)


def title(text: str) -> str:
    """The first heading."""
    return text.partition("\n")[0].removeprefix("# ")


def summary(text: str) -> str:
    """The first sentence of the first paragraph, without marks and links."""
    paragraphs = (" ".join(block.split()) for block in text.split("\n\n"))
    paragraph = next(block for block in paragraphs if block[:1] not in "#`|<-" or block.startswith("`perdure"))
    paragraph = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", paragraph).replace("**", "")
    return re.split(r"(?<=[.?])\s", paragraph)[0]
