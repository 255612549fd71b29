#!/usr/bin/env python3
"""Writes copies of C++ sources in which every small change of their decisions exists at once.

    schemata.py --out DIR --list FILE --root DIR [--flag FLAG]... SOURCE...

A change (a mutant) is one of
    condition    a condition, an operand of && or ||, a returned or stored truth value is negated
    statement    a statement that is an expression (an assignment, a call) is left out
    constant     a number is one more (plus) or one less (minus), a truth value the other one
Each has a number, and mutant.hpp asks whether it is the chosen one: so one compilation is enough for all of them. FILE
gets one JSON object per mutant and line.

Left alone: what is only text for people (kTextOnly), assertions, fault points, room that is reserved, the deliberate bugs of mutation.hpp, constant
expressions.
"""
import argparse
import json
import pathlib
import re
import sys

sys.path.append("/usr/lib/python3/dist-packages")  # Debian's python3-clang, whichever python3 comes first
from clang import cindex  # noqa: E402

Kind = cindex.CursorKind

kTextOnly = {"to_string", "name_of", "bytes"}
kFunctions = {Kind.FUNCTION_DECL, Kind.CXX_METHOD, Kind.CONSTRUCTOR, Kind.FUNCTION_TEMPLATE, Kind.CONVERSION_FUNCTION}
kSkipped = {Kind.STATIC_ASSERT, Kind.ENUM_DECL, Kind.TEMPLATE_TYPE_PARAMETER, Kind.TEMPLATE_NON_TYPE_PARAMETER}
kBodies = {Kind.COMPOUND_STMT, Kind.CASE_STMT, Kind.DEFAULT_STMT, Kind.IF_STMT, Kind.FOR_STMT, Kind.WHILE_STMT,
           Kind.CXX_FOR_RANGE_STMT}


class File:
    def __init__(self, path, name, first_id):
        self.path = path
        self.name = name
        self.source = path.read_bytes()
        self.assertions = list(assertions_of(self.source))
        self.edits = []  # (offset, is_prefix, depth, text)
        self.mutants = []
        self.next_id = first_id
        self.function = ""

    def text(self, begin, end):
        return self.source[begin:end].decode()

    def text_of(self, cursor):
        return self.text(cursor.extent.start.offset, cursor.extent.end.offset)

    def add(self, kind, cursor, n_ids=1, note=""):
        first = self.next_id
        line_begin = self.source.rfind(b"\n", 0, cursor.extent.start.offset) + 1
        line_end = self.source.find(b"\n", cursor.extent.start.offset)
        for i in range(n_ids):
            self.mutants.append({
                "id": self.next_id, "file": self.name, "line": cursor.extent.start.line, "function": self.function,
                "kind": kind, "change": note or ("plus" if n_ids == 2 and i == 0 else "minus" if n_ids == 2 else ""),
                "what": " ".join(self.text_of(cursor).split()),
                "source": self.text(line_begin, line_end).strip()})
            self.next_id += 1
        return first

    def wrap(self, cursor, depth, before, after):
        self.edits.append((cursor.extent.start.offset, 1, depth, before))
        self.edits.append((cursor.extent.end.offset, 0, -depth, after))

    def result(self):
        out, at = [], 0
        for offset, _, _, text in sorted(self.edits, key=lambda edit: edit[:3]):
            out.append(self.source[at:offset].decode())
            out.append(text)
            at = offset
        out.append(self.source[at:].decode())
        include = "tests/mutation/mutant.hpp"
        text = "".join(out)
        return text.replace("#pragma once\n", f'#pragma once\n#include "{include}"\n', 1) \
            if "#pragma once\n" in text else f'#include "{include}"\n#line 1 "{self.path}"\n' + text


def assertions_of(source):
    """(begin, end) of each SFT_ASSERT(...): a mutant of one says nothing about the code."""
    for found in re.finditer(rb"\bSFT_(ASSERT|ASSERT_SLOW|UNREACHABLE)\(", source):
        depth, at = 1, found.end()
        while depth > 0:
            depth += {ord("("): 1, ord(")"): -1}.get(source[at], 0)
            at += 1
        yield found.start(), at


def is_asserted(file, cursor):
    return any(begin <= cursor.extent.start.offset < end for begin, end in file.assertions)


def children(cursor):
    return list(cursor.get_children())


def is_in(cursor, file):
    return cursor.location.file is not None and cursor.location.file.name == str(file.path)


def is_expression(cursor):
    return cursor.kind.is_expression()


def operator_of(file, cursor):
    left, right = children(cursor)[:2]
    between = file.text(left.extent.end.offset, right.extent.start.offset)
    return re.sub(r"//.*|[\s()]", "", between)


def strip(cursor):
    """Through what has no text of its own."""
    while cursor.kind in (Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR):
        inside = children(cursor)
        if len(inside) != 1 or not is_expression(inside[0]):
            break
        cursor = inside[0]
    return cursor


def is_deliberate(file, cursor):
    return re.match(r"[!(\s]*is_mutated\(", file.text_of(cursor)) is not None


class Walk:
    def __init__(self, file):
        self.file = file

    def condition(self, cursor, depth):
        file = self.file
        if is_deliberate(file, cursor) or strip(cursor).kind == Kind.CXX_BOOL_LITERAL_EXPR:
            return
        number = file.add("condition", cursor)
        file.wrap(cursor, depth, f"::sft::mutant::flip({number}, static_cast<bool>(", "))")

    def declared_condition(self, variable, depth):
        """if (auto x = f())"""
        file = self.file
        number = file.add("condition", variable)
        end = variable.extent.end.offset
        file.edits.append((end, 0, -depth, f"; ::sft::mutant::flip({number}, static_cast<bool>({variable.spelling}))"))

    def statement(self, cursor, depth):
        file = self.file
        text = file.text_of(cursor)
        if not is_expression(cursor) or is_asserted(file, cursor) or re.match(r"fault_point\(|assert\(|[\w.]+\.reserve\(", text) or \
                re.fullmatch(r"static_cast<void>\(\w+\)", text) or \
                re.fullmatch(r"(\w+) = \1 \|\| is_mutated\(.*\)", text):
            return
        number = file.add("statement", cursor)
        file.wrap(cursor, depth, f"if (::sft::mutant::runs({number})) ", "")

    def constant(self, cursor, depth, cast):
        file = self.file
        if cursor.kind == Kind.CXX_BOOL_LITERAL_EXPR:
            number = file.add("constant", cursor, note="negated")
            file.wrap(cursor, depth, f"::sft::mutant::flip({number}, ", ")")
            return
        number = file.add("constant", cursor, n_ids=2)
        file.wrap(cursor, depth, f"static_cast<{cast}>(::sft::mutant::shift({number}, ", "))")

    def visit(self, cursor, depth, parent_type=None):
        file = self.file
        kind = cursor.kind
        if kind in kSkipped or is_asserted(file, cursor):
            return
        if kind in kFunctions and not self.enter_function(cursor):
            return
        inside = children(cursor)
        skipped = set()
        if kind == Kind.DECL_STMT and file.function:
            at = re.match(r"(static )?constexpr\b", file.text_of(cursor))
            if at:
                begin = cursor.extent.start.offset
                file.edits.append((begin, 1, 0, "const /* "))
                file.edits.append((begin + at.end(), 0, 0, " */"))
        if kind == Kind.COMPOUND_STMT:
            for child in inside:
                self.statement(child, depth + 1)
        elif kind in (Kind.CASE_STMT, Kind.DEFAULT_STMT):
            self.statement(inside[-1], depth + 1)
            if kind == Kind.CASE_STMT:
                skipped.add(0)
        elif kind == Kind.IF_STMT:
            self.visit_if(cursor, inside, depth, skipped)
        elif kind == Kind.CONDITIONAL_OPERATOR:
            self.condition(inside[0], depth + 1)
            if is_deliberate(file, inside[0]):
                skipped.update((0, 1))
        elif kind == Kind.WHILE_STMT:
            self.condition(inside[0], depth + 1)
        elif kind == Kind.FOR_STMT:
            for child in inside[:-1]:
                if is_expression(child) and child.type.kind == cindex.TypeKind.BOOL:
                    self.condition(child, depth + 1)
                    break
        elif kind == Kind.BINARY_OPERATOR and operator_of(file, cursor) in ("&&", "||"):
            for i, child in enumerate(inside):
                self.condition(child, depth + 1)
                if is_deliberate(file, child):
                    skipped.add(i)
        elif kind == Kind.RETURN_STMT and inside and is_truth(inside[0]):
            self.condition(inside[0], depth + 1)
        elif kind == Kind.VAR_DECL and inside and cursor.type.get_canonical().kind == cindex.TypeKind.BOOL and \
                is_expression(inside[-1]):
            self.condition(inside[-1], depth + 1)
        elif kind in (Kind.INTEGER_LITERAL, Kind.CXX_BOOL_LITERAL_EXPR) and file.function and \
                re.fullmatch(r"[0-9][\w']*|true|false", file.text_of(cursor)):  # not one that the compiler has put there
            self.constant(cursor, depth + 1, parent_type or cursor.type.spelling)
        for i, child in enumerate(inside):
            if i in skipped:
                continue
            same = kind == Kind.UNEXPOSED_EXPR and child.extent == cursor.extent and \
                cursor.type.get_canonical().kind.name in kIntegers
            self.visit(child, depth + 2, cursor.type.get_canonical().spelling.replace("const ", "") if same else None)
        if kind in kFunctions:
            file.function = ""

    def visit_if(self, cursor, inside, depth, skipped):
        file = self.file
        if re.match(r"if\s+constexpr", file.text_of(cursor)):
            skipped.update(range(len(inside)))
            return
        declared = [child for child in inside if child.kind == Kind.VAR_DECL]
        conditions = [i for i, child in enumerate(inside) if is_expression(child)]
        if declared:
            self.declared_condition(declared[0], depth + 1)
            skipped.update(conditions[:1])
        elif conditions:
            condition = inside[conditions[0]]
            self.condition(condition, depth + 1)
            if re.search(r"(^|&& )is_mutated\(", file.text_of(condition)):
                skipped.add(conditions[0])
                skipped.add(conditions[0] + 1)

    def enter_function(self, cursor):
        file = self.file
        if not cursor.is_definition() or cursor.spelling in kTextOnly or cursor.is_default_method():
            return False
        begin = cursor.extent.start.offset
        body = [child for child in children(cursor) if child.kind == Kind.COMPOUND_STMT]
        if not body:
            return False
        head = file.text(begin, body[0].extent.start.offset)
        at = re.search(r"\bconstexpr\b", head)
        if at:
            file.edits.append((begin + at.start(), 1, 0, "/* "))
            file.edits.append((begin + at.end(), 0, 0, " */ inline"))
        owner = cursor.semantic_parent
        scope = owner.spelling + "::" if owner is not None and owner.kind in (Kind.CLASS_DECL, Kind.STRUCT_DECL) else ""
        file.function = scope + cursor.spelling
        return True


kIntegers = {"INT", "UINT", "LONG", "ULONG", "LONGLONG", "ULONGLONG", "USHORT", "SHORT", "UCHAR", "SCHAR"}


def is_truth(cursor):
    return cursor.type.get_canonical().kind == cindex.TypeKind.BOOL


def top_level(cursor, file):
    for child in children(cursor):
        if not is_in(child, file):
            continue
        if child.kind in (Kind.NAMESPACE, Kind.CLASS_DECL, Kind.STRUCT_DECL, Kind.LINKAGE_SPEC, Kind.UNEXPOSED_DECL):
            yield from top_level(child, file)
        elif child.kind in kFunctions or child.kind == Kind.VAR_DECL:
            yield child


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--list", type=pathlib.Path, required=True)
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--flag", action="append", default=[])
    parser.add_argument("sources", nargs="+")
    args = parser.parse_args()
    root = args.root.resolve()
    index = cindex.Index.create()
    flags = ["-xc++", "-std=c++20", f"-I{root}", *args.flag]
    next_id = 1
    mutants = []
    for name in args.sources:
        path = root / name
        file = File(path, name, next_id)
        unit = index.parse(str(path), args=flags)
        errors = [str(item) for item in unit.diagnostics if item.severity >= cindex.Diagnostic.Error]
        if errors:
            sys.exit(f"schemata: error: {name} cannot be parsed: {errors[0]}")
        for item in top_level(unit.cursor, file):
            Walk(file).visit(item, 0)
        target = args.out / name.replace("/", "_")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(file.result())
        mutants += file.mutants
        next_id = file.next_id
    args.list.write_text("".join(json.dumps(mutant) + "\n" for mutant in mutants))


if __name__ == "__main__":
    main()
