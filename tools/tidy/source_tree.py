"""The files of a source tree, and what C++ text looks like without its comments and strings.

Works on a plain folder, so that a clone, an unpacked archive and a made-up tree in a test are all the same. Folders of
builds are recognised by what Meson leaves in them.
"""

import dataclasses
import functools
import pathlib
import re

C_SUFFIXES = {".c", ".h"}
CPP_SUFFIXES = {".cpp", ".hpp"}
TEXT_SUFFIXES = C_SUFFIXES | CPP_SUFFIXES | {".py", ".def", ".in", ".md", ".sh", ".txt", ".build", ".map", ""}
SKIPPED_NAMES = {".git", "__pycache__", ".cache"}  # .git is a file in a worktree

# Written by tools/gen_api.py, which has a test of its own; their length and layout are the specification's.
GENERATED = {"include/shmem.h", "include/pshmem.h"}


@dataclasses.dataclass(frozen=True, order=True)
class Finding:
    path: str
    line: int
    text: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.text}"


class SourceTree:
    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()

    @functools.cached_property
    def files(self):
        """Paths of all text files relative to the root, sorted."""
        found = []
        folders = [self.root]
        while folders:
            for path in sorted(folders.pop().iterdir()):
                if path.is_symlink():
                    continue
                if path.is_dir():
                    if path.name not in SKIPPED_NAMES and not (path / "meson-private").exists():
                        folders.append(path)
                elif path.suffix in TEXT_SUFFIXES and path.name not in SKIPPED_NAMES:
                    found.append(path.relative_to(self.root).as_posix())
        return sorted(found)

    def with_suffix(self, suffixes, *, generated=False):
        return [
            path
            for path in self.files
            if pathlib.PurePosixPath(path).suffix in suffixes and (generated or path not in GENERATED)
        ]

    @functools.lru_cache(maxsize=None)
    def text(self, path):
        return (self.root / path).read_text(encoding="utf-8", errors="replace")

    @functools.lru_cache(maxsize=None)
    def code(self, path):
        return without_comments_and_strings(self.text(path))


_TOKEN = re.compile(
    r"""
    (?P<comment> //[^\n]* | /\*.*?\*/ )
  | (?P<raw> R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)" )
  | (?P<string> "(?:\\.|[^"\\\n])*" )
  | (?P<char> (?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])+' )
    """,
    re.S | re.X,
)


def without_comments_and_strings(text):
    """The text with comments blanked and strings emptied; line numbers stay."""

    def blank(match):
        newlines = "\n" * match.group().count("\n")
        if match.lastgroup == "comment" or match.group("comment"):
            return " " + newlines
        return '""' + newlines if not match.group("char") else "' '"

    # The name in an #include is no string for our purposes.
    return "\n".join(_keep_includes(text, _TOKEN.sub(blank, text)))


def _keep_includes(text, stripped):
    for original, line in zip(text.split("\n"), stripped.split("\n")):
        yield original if re.match(r'\s*#\s*include\s*"', original) and line.lstrip().startswith("#") else line


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1
