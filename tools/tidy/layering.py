"""Which folder may include which: the table of ARCHITECTURE.md, as data."""

import re

from source_tree import C_SUFFIXES, CPP_SUFFIXES, Finding, line_of

EVERYTHING = None

MAY_INCLUDE = {
    "base": set(),
    "transport": {"base"},
    "symheap": {"base", "transport"},
    "backup": {"base", "transport", "symheap"},
    "storage": {"base", "symheap", "backup"},
    "recovery": {"base", "transport", "symheap", "backup"},
    # The roof: folders of shmem_ft/.
    "ops": {"base", "transport", "symheap"},
    "api": {"base", "ops", "include"},
    "start": {"base", "transport"},
    "process": EVERYTHING,
    "include": set(),
    "apps": {"include"},
    "benchmarks": {"include"},
    # Tools look at programs, settings, plans and the segments of running jobs from outside; they never run a library's
    # engine.
    "tools": {"base", "transport", "symheap", "recovery", "storage"},
    "tests": EVERYTHING,
}

PUBLIC_HEADERS = {"shmem.h", "shmemx.h", "pshmem.h", "shmem_ft.h", "shmem_ft.hpp", "mpp/shmem.h", "mpp/shmemx.h"}


def layer_of(path):
    parts = path.split("/")
    if parts[0] == "shmem_ft":
        return parts[1] if len(parts) > 2 else "shmem_ft"
    return parts[0]


def _includes(code):
    return re.finditer(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', code, re.M)


def check_unused_edges(tree):
    """What a folder may include and does not: the table says what is, so that a new arrow is a decision."""
    used = {
        (layer_of(path), "include" if name in PUBLIC_HEADERS else layer_of(name))
        for path in tree.with_suffix(C_SUFFIXES | CPP_SUFFIXES, generated=True)
        for name in (match[1] or match[2] for match in _includes(tree.code(path)))
    }
    for layer, allowed in MAY_INCLUDE.items():
        for included in sorted(allowed or ()):
            if (layer, included) not in used:
                yield Finding("tools/tidy/layering.py", 1, f"{layer} includes nothing of {included}: take it out of the table")


def check_layering(tree):
    for path in tree.with_suffix(C_SUFFIXES | CPP_SUFFIXES, generated=True):
        layer = layer_of(path)
        if layer not in MAY_INCLUDE:
            yield Finding(path, 1, f"folder '{layer}' is not in the table of tools/tidy/layering.py")
            continue
        code = tree.code(path)
        for match in _includes(code):
            yield from _check_include(tree, path, line_of(code, match.start(1) if match[1] else match.start(2)), match)


def _check_include(tree, path, line, match):
    layer = layer_of(path)
    quoted, angled = match.group(1), match.group(2)
    if angled and angled not in PUBLIC_HEADERS:
        if (tree.root / angled).is_file():
            yield Finding(path, line, f'<{angled}> is ours: write "{angled}"')
        return
    name = quoted or angled
    if layer == "include" and name.removeprefix("../") in PUBLIC_HEADERS:
        return  # they lie side by side once installed
    if name in PUBLIC_HEADERS:
        included = "include"
    elif not (tree.root / name).is_file() and not (tree.root / f"{name}.in").is_file():
        yield Finding(path, line, f'"{name}" is no path from the root of the repository')
        return
    else:
        included = layer_of(name)
    allowed = MAY_INCLUDE[layer]
    if allowed is not EVERYTHING and included != layer and included not in allowed:
        yield Finding(path, line, f"{layer} must not include {included} ({name}); it may: {_names(allowed)}")


def _names(layers):
    return ", ".join(sorted(layers)) or "nothing of ours"
