"""``perdure init``: a small project that works, to begin with."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

import click

from perdure.cli.exits import Exit
from perdure.cli.options import debug_option, json_option, print_json, screen
from perdure.cli.render import Column, Part

FILES = {
    "workflows.py": "a workflow of two steps that waits for an approval",
    "test_workflows.py": "its tests, one of which kills it wherever it can die",
    "perdure.toml": "settings: runs are kept in perdure.db",
    "README.md": "what to type, and what comes of it",
    ".gitignore": "the store is nobody's to commit",
}
"""What a project has; each is made of the text of this name in ``project``."""
NEXT = "perdure run workflows:fulfil --input 42 --run-id order-42"


@click.command(epilog="Example: perdure init shop")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=".")
@json_option
@debug_option
def init(folder: Path, *, as_json: bool) -> Exit:
    """Make a small project that works, in FOLDER or here.

    A workflow, its tests, settings, and a README with what to type next. Nothing that is there is overwritten: if one
    of the files is, none is made.
    """
    there = [name for name in FILES if os.path.lexists(folder / name)]
    if there:
        raise click.UsageError(
            f"{', '.join(there)} {'is' if len(there) == 1 else 'are'} in {folder.resolve()} already, and nothing is "
            "overwritten: name a new folder, as in `perdure init shop`"
        )
    try:
        _make(folder)
    except OSError as error:
        raise click.UsageError(
            f"no project can be made in {folder.resolve()}: {error.strerror}; name a folder that can be written"
        ) from error
    todo = ([] if folder.resolve() == Path.cwd() else [f"cd {folder}"]) + [NEXT]
    if as_json:
        print_json({"folder": str(folder.resolve()), "files": list(FILES), "next": todo})
        return Exit.OK
    out = screen()
    out.line(Part("✓", "good"), f" a project is in {folder.resolve()}")
    rows = [(Part(name, "strong"), about) for name, about in FILES.items()]
    out.table([Column(), Column(flexible=True)], rows, indent=2)
    out.gap()
    out.line("Run it, and kill it while it waits (README.md says how it goes on):")
    for line in todo:
        out.text(line, style="strong", indent=2)
    return Exit.OK


def _make(folder: Path) -> None:
    """Write all files, or none."""
    texts = files("perdure.cli") / "project"
    folder.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    try:
        for name in FILES:
            text = (texts / f"{name.lstrip('.')}.txt").read_text("utf-8")
            with (folder / name).open("x", encoding="utf-8", newline="\n") as file:
                made.append(folder / name)
                file.write(text)
    except BaseException:
        for path in made:
            path.unlink(missing_ok=True)
        raise


__all__ = ["init"]
