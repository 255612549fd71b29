"""Rules about documentation: links lead somewhere, and the program in the README is the one that is tested."""

import posixpath
import re

from source_tree import Finding, line_of

SHOWN_PROGRAM = "apps/hello.c"


def check_links(tree):
    for path in tree.with_suffix({".md"}):
        text = tree.text(path)
        for match in re.finditer(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            target = match[1]
            if not re.match(r"[a-z]+:", target) and not (tree.root / posixpath.dirname(path) / target).exists():
                yield Finding(path, line_of(text, match.start()), f"the link leads nowhere: {target}")
    yield from check_named_files(tree)


def check_named_files(tree):
    """Comments and documents name files from the root, or from their own folder."""
    rooms = {path.split("/")[0] for path in tree.files if "/" in path}
    for path in tree.with_suffix({".md", ".c", ".h", ".cpp", ".hpp"}):
        text = tree.text(path)
        for match in re.finditer(r"(?<![\w./-])([a-z_]+)/[a-z_0-9/-]*[a-z_0-9-]\.(?:hpp|cpp|h|c|py|md|def)\b", text):
            places = [tree.root / place / match[0] for place in ("", posixpath.dirname(path))]
            is_there = any(place.exists() or place.with_name(place.name + ".in").exists() for place in places)
            if match[1] in rooms and not is_there:
                yield Finding(path, line_of(text, match.start()), f"there is no such file: {match[0]}")


def check_shown_program(tree):
    if "README.md" not in tree.files or SHOWN_PROGRAM not in tree.files:
        return
    readme = tree.text("README.md")
    program = re.sub(r"\A/\*.*?\*/\s*", "", tree.text(SHOWN_PROGRAM), flags=re.S)
    if f"```c\n{program}```" not in readme:
        at = max(readme.find("```c"), 0)
        yield Finding("README.md", line_of(readme, at), f"the first program differs from {SHOWN_PROGRAM}")
