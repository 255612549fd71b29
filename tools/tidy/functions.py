"""Finds functions and their lengths in C++ text, well enough for code laid out by clang-format.

A brace opens a function if the statement before it has a parameter list and is no type, namespace or statement of
another kind. Functions inside functions (lambdas) belong to the outer one.
"""

import dataclasses
import re

NOT_A_FUNCTION = re.compile(r"^\s*(?:namespace|class|struct|union|enum|if|for|while|switch|do|else|try|catch)\b")
ACCESS_LABELS = re.compile(r"\s*(?:(?:public|private|protected)\s*:\s*)*")
EXTERN_BLOCK = re.compile(r'^\s*extern\s*""\s*$')


@dataclasses.dataclass(frozen=True)
class Function:
    name: str
    first_line: int
    last_line: int

    @property
    def lines(self):
        return self.last_line - self.first_line + 1


def _without_preprocessor(code):
    def blank(match):
        return "\n" * match.group().count("\n")

    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, code, flags=re.M)
    # A macro that stands alone, like FOR_ALL_TYPES(DEFINE), is no part of what follows it.
    return re.sub(r"^([A-Z][A-Z0-9_]+\([^{}();]*\))[ \t]*$", r"\1;", code, flags=re.M)


def _is_function_head(head):
    head = ACCESS_LABELS.sub("", head, count=1)
    head = re.sub(r"^\s*template\s*<[^{}]*?>\s*(?=[\w\[:~])", "", head)
    if "(" not in head or NOT_A_FUNCTION.match(head) or EXTERN_BLOCK.match(head):
        return False
    # `name = [...](...) {` and `name = f(...) {...}` initialise something.
    return not re.search(r"(?<![=!<>+\-*/|&^r])=(?!=)(?!\s*(?:default|delete)\b)", re.sub(r"\([^()]*\)", "()", head))


def _name(head):
    match = re.search(r"([\w:~]+(?:\s*operator\s*\S+)?)\s*\(", head)
    return match.group(1) if match else "?"


def find_functions(code):
    """`code` is without comments and strings. Yields the outermost functions."""
    code = _without_preprocessor(code)
    functions = []
    head_start = 0
    depth = 0  # of braces inside the function
    parentheses = 0
    head = ""
    for match in re.finditer(r"[{};()]", code):
        sign, at = match.group(), match.start()
        if depth:
            depth += (sign == "{") - (sign == "}")
            if depth == 0:
                if re.match(r"\s*[,{]", code[at + 1 :]):
                    continue  # `: member{value}, other{value} {`: still the head of a constructor
                functions.append(Function(_name(head), _first_line(code, head_start), code.count("\n", 0, at) + 1))
                head_start = at + 1
            continue
        parentheses += (sign == "(") - (sign == ")")
        if parentheses or sign in "()":
            continue  # a default argument may hold braces
        if sign == "{":
            head = code[head_start:at]
            if _is_function_head(head):
                depth = 1
                continue
        head_start = at + 1
    return functions


def _first_line(code, start):
    before = ACCESS_LABELS.match(code, start)
    return code.count("\n", 0, before.end() if before else start) + 1
