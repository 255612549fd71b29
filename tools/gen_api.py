#!/usr/bin/env python3
"""Writes include/shmem.h and include/pshmem.h from the tables in shmem_ft/api.

    gen_api.py                 rewrite the headers
    gen_api.py --output DIR    write them into DIR instead
    gen_api.py --check         exit 1 and name the file if a committed header is not what would be written
    gen_api.py --list          print the names of all routines
"""

import argparse
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLES = ROOT / "shmem_ft" / "api"
WIDTH = 118

# What the typedefs are on LP64 Linux, the only data model supported. _Generic must not list compatible types twice.
LP64 = {
    "int8_t": "signed char", "int16_t": "short", "int32_t": "int", "int64_t": "long",
    "uint8_t": "unsigned char", "uint16_t": "unsigned short", "uint32_t": "unsigned int", "uint64_t": "unsigned long",
    "size_t": "unsigned long", "ptrdiff_t": "long",
}


def read_types():
    """{column: [(TYPENAME, TYPE), ...]} from types.def."""
    text = (TABLES / "types.def").read_text()
    columns = re.search(r"^//columns: name +C type +(.*)$", text, re.M).group(1).split()
    families = {column: [] for column in columns}
    for row in re.findall(r"PICK\(M, (.*)\)(?: \\)?$", text, re.M):
        name, c_type, *flags = [cell.strip() for cell in row.split(",")]
        if len(flags) != len(columns):
            sys.exit(f"types.def: {name}: {len(flags)} flags for {len(columns)} columns")
        for column, flag in zip(columns, flags):
            if flag == "1":
                families[column].append((name, c_type))
    return families


class Family:
    def __init__(self, types, forms, prototype):
        self.types = types
        self.forms = set(forms.split(",")) - {"-"}
        result, self.name, self.parameters = re.match(r"(.*?)(\w+)\((.*)\)$", prototype).groups()
        self.result = result

    def expand(self, families):
        """The prototypes of the family, as (result, name, parameters)."""
        if self.types in ("size", "width"):
            values = [(str(bits), "") for bits in ((8, 16, 32, 64, 128) if self.types == "size" else (32, 64))]
        elif self.types == "-":
            values = [("", "")]
        else:
            values = families[self.types]
        heads = [("shmem_", "")]
        if "ctx" in self.forms:
            heads.append(("shmem_ctx_", "shmem_ctx_t ctx"))
        for prefix, context in heads:
            for name, c_type in values:
                full = re.sub("TYPENAME|SIZE|WIDTH", name, self.name)
                if prefix != "shmem_":
                    full = full.replace("shmem_", prefix, 1)
                parameters = re.sub(r"\bTYPE\b", c_type, self.parameters)
                if context:
                    parameters = context if parameters == "void" else f"{context}, {parameters}"
                yield re.sub(r"\bTYPE\b", c_type, self.result), full, parameters

    # Type-generic macro: where the typed argument is, and whether it may point to const.
    def has_team(self):
        return self.parameters.startswith("shmem_team_t")

    def is_const(self):
        return self.parameters.startswith("const TYPE")


def read_routines():
    """[(section, [Family, ...]), ...] from routines.def."""
    sections = []
    lines = []
    for line in (TABLES / "routines.def").read_text().splitlines():
        if line.startswith(" ") and line.strip():
            lines[-1] += " " + line.strip()
        elif line.strip() and (line.startswith("## ") or not line.startswith("#")):
            lines.append(line)
    for line in lines:
        if line.startswith("## "):
            sections.append((line[3:], []))
        else:
            sections[-1][1].append(Family(*line.split(None, 2)))
    return sections


def wrap(text, width=WIDTH):
    return textwrap.wrap(text, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def prototypes(sections, families, prefix):
    out = []
    for title, routines in sections:
        out.append(f"/* {title} */")
        for routine in routines:
            for result, name, parameters in routine.expand(families):
                attribute = " __attribute__((__noreturn__))" if name == "shmem_global_exit" else ""
                out.extend(wrap(f"{result}{prefix}{name}({parameters}){attribute};"))
        out.append("")
    return "\n".join(out)


def complex_overloads(sections, families, prefix):
    """For C++: the routines with complex numbers once more, for the types of C that GCC and Clang know there as well."""
    out = []
    for _, routines in sections:
        for routine in routines:
            for result, name, parameters in routine.expand(families):
                if "SHMEM_FT_COMPLEX" not in parameters:
                    continue
                own = re.sub(r"SHMEM_FT_COMPLEX\((\w+)\)", r"shmem_ft_\1_complex", parameters)
                passed = []
                for parameter in parameters.split(", "):
                    c_type, argument = re.match(r"(.*?)(\w+)$", parameter).groups()
                    is_complex = "SHMEM_FT_COMPLEX" in c_type
                    passed.append(f"reinterpret_cast<{c_type.strip()}>({argument})" if is_complex else argument)
                back = "" if result.strip() == "void" else "return "
                out.extend(wrap(f"inline {result}{prefix}{name}({own}) {{"))
                out.extend("    " + line for line in wrap(f"{back}{prefix}{name}({', '.join(passed)});", WIDTH - 4))
                out.append("}")
    return "\n".join(out) + "\n"


def distinct(types):
    """One TYPENAME for each type that the compiler tells apart."""
    seen = {}
    for name, c_type in types:
        seen.setdefault(LP64.get(c_type, c_type), name)
    return seen.items()


def continued(text):
    """A macro definition over several lines; ~ is a space that must not be the end of a line."""
    return " \\\n".join(wrap(text, WIDTH - 2)).replace("~", " ")


def selections(used, families):
    """SHMEM_FT_SELECT_<column>[_CONST](before, after): the associations of the types of a column."""
    out = []
    for column, is_const in sorted(used):
        entries = []
        for c_type, name in distinct(families[column]):
            for qualifier in ("", "const ") if is_const else ("",):
                entries.append(f"{qualifier}{c_type} *: before##_{name}_##after".replace(" ", "~"))
        tail = "_CONST" if is_const else ""
        out.append(continued(f"#define SHMEM_FT_SELECT_{column.upper()}{tail}(before, after) " + ", ".join(entries)))
    return "\n".join(out)


def generics(sections, families):
    out, used = [], set()
    for title, routines in sections:
        for routine in routines:
            if "generic" not in routine.forms:
                continue
            used.add((routine.types, routine.is_const()))
            tail = "_CONST" if routine.is_const() else ""
            operation = routine.name.replace("shmem_TYPENAME_", "")
            select = f"SHMEM_FT_SELECT_{routine.types.upper()}{tail}"
            typed = "SHMEM_FT_SECOND" if routine.has_team() else "SHMEM_FT_FIRST"
            choice = f"{select}(shmem,~{operation})"
            if "ctx" in routine.forms:
                choice = (f"shmem_ctx_t:~_Generic(SHMEM_FT_SECOND(__VA_ARGS__), {select}(shmem_ctx,~{operation}), "
                          f"default:~0), {choice}")
            out.append(continued(f"#define shmem_{operation}(...) _Generic({typed}(__VA_ARGS__), {choice})(__VA_ARGS__)"))
    return selections(used, families), "\n".join(out) + "\n"


def headers():
    """{file name: text}."""
    families, sections = read_types(), read_routines()
    selected, macros = generics(sections, families)
    public = (TABLES / "shmem.h.in").read_text()
    public = public.replace("@PROTOTYPES@", prototypes(sections, families, "").rstrip() + "\n")
    public = public.replace("@COMPLEX@", complex_overloads(sections, families, ""))
    public = public.replace("@SELECTIONS@", selected).replace("@GENERICS@", macros)
    profiling = (TABLES / "pshmem.h.in").read_text()
    profiling = profiling.replace("@PROTOTYPES@", prototypes(sections, families, "p").rstrip() + "\n")
    profiling = profiling.replace("@COMPLEX@", complex_overloads(sections, families, "p"))
    return {"shmem.h": public, "pshmem.h": profiling}


def names():
    families = read_types()
    return sorted(name for _, routines in read_routines() for routine in routines
                  for _, name, _ in routine.expand(families))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "include")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join(names()))
        return 0
    for file, text in headers().items():
        path = options.output / file
        if not options.check:
            path.write_text(text)
        elif path.read_text() != text:
            print(f"{path} is not what the tables in shmem_ft/api say: run tools/gen_api.py", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
