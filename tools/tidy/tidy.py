#!/usr/bin/env python3
"""Checks what the compiler does not: the rules of CONTRIBUTING.md that a program can decide.

    tidy.py --root DIR RULE...          rules about the source tree
    tidy.py --archive LIB.a globals     no state of the library among a program's globals
    tidy.py --shared LIB.so exports     nothing is exported but the interface
    tidy.py --list

Prints a line per finding and exits with 1 if there is any. Python's standard library only.
"""

import argparse
import sys

import built_rules
import doc_rules
import layering
import text_rules
from source_tree import SourceTree

TREE_RULES = {
    "layering": layering.check_layering,
    "unused-edges": layering.check_unused_edges,
    "file-length": text_rules.check_file_lengths,
    "function-length": text_rules.check_function_lengths,
    "banned": text_rules.check_banned,
    "markers": text_rules.check_markers,
    "machine-paths": text_rules.check_machine_paths,
    "guards": text_rules.check_guards,
    "listed": text_rules.check_listed,
    "links": doc_rules.check_links,
    "shown-program": doc_rules.check_shown_program,
    "layout": built_rules.check_layout,
}
OTHER_RULES = ("headers", "globals", "exports")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rules", nargs="*", metavar="RULE", help="default: all rules about the source tree")
    parser.add_argument("--root", default=".", help="of the source tree")
    parser.add_argument("--archive", help="the static library, for `globals`")
    parser.add_argument("--shared", help="the shared library, for `exports`")
    parser.add_argument("--include", action="append", default=[], help="folder of headers of others, for `headers`")
    parser.add_argument("--list", action="store_true", help="print the names of the rules")
    arguments = parser.parse_args()
    known = [*TREE_RULES, *OTHER_RULES]
    for rule in arguments.rules:
        if rule not in known:
            parser.error(f"unknown rule '{rule}'; known: {' '.join(known)}")
    return arguments


def findings_of(rule, arguments, tree):
    if rule == "headers":
        return built_rules.check_headers(tree, [f"-isystem{folder}" for folder in arguments.include])
    if rule == "globals":
        return built_rules.check_private_globals(arguments.archive)
    if rule == "exports":
        return built_rules.check_exports(arguments.shared)
    return TREE_RULES[rule](tree)


def main():
    arguments = parse_arguments()
    if arguments.list:
        print("\n".join([*TREE_RULES, *OTHER_RULES]))
        return 0
    tree = SourceTree(arguments.root)
    count = 0
    for rule in arguments.rules or TREE_RULES:
        for finding in findings_of(rule, arguments, tree):
            print(f"{finding} [{rule}]")
            count += 1
    if count:
        print(f"tidy: {count} findings", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
