#!/usr/bin/env python3
"""Writes a wrapper for every public routine: those of the tables in shmem_ft/api, and those that shmem_ft.h declares.

    write_wrappers.py OUTPUT.c
    write_wrappers.py --list     print the names
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools"))

import gen_api  # noqa: E402

HEAD = """/* Written by tests/registers/write_wrappers.py. */
#include <shmem.h>
#include <shmem_ft.h>

#include "tests/registers/observer.h"

"""


def of_the_tables():
    families = gen_api.read_types()
    for _, routines in gen_api.read_routines():
        for routine in routines:
            yield from routine.expand(families)


def of_fault_tolerance():
    text = (ROOT / "include" / "shmem_ft.h").read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for result, name, parameters in re.findall(r"^(\w[\w ]*?[ *]+)(shmem_\w+)\(([^;]*)\);", text, re.M):
        yield result, name, " ".join(parameters.split())


def arguments_of(parameters):
    """The names; what stands behind the named parameters of a variadic routine means nothing to the library."""
    words = [word.strip() for word in parameters.split(",")]
    return ", ".join(re.search(r"(\w+)$", word)[1] for word in words if word not in ("void", "..."))


# The name in parentheses: it may also be a macro.
def wrapper(number, result, name, parameters):
    call = f"real({arguments_of(parameters)});"
    has_result = result.strip() != "void"
    return "\n".join([
        f"{result}({name})({parameters}) {{",
        f"    static __typeof__(&{name}) real;",
        "    if (real == NULL) {",
        f'        real = (__typeof__(real))observed_routine("{name}");',
        "    }",
        f"    observe_call({number});",
        f"    {result}answer = {call}" if has_result else f"    {call}",
        f"    observe_return({number});",
        *(["    return answer;"] if has_result else []),
        "}",
    ])


def main():
    routines = [*of_the_tables(), *of_fault_tolerance()]
    if sys.argv[1] == "--list":
        print("\n".join(name for _, name, _ in routines))
        return
    wrappers = [wrapper(number, *routine) for number, routine in enumerate(routines)]
    names = ",\n".join(f'    "{name}"' for _, name, _ in routines)
    table = f"const char *const observed_names[] = {{\n{names},\n}};\nconst size_t observed_count = {len(routines)};"
    pathlib.Path(sys.argv[1]).write_text(HEAD + "\n\n".join([table, *wrappers]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
