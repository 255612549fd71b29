#!/usr/bin/env python3
"""Sums up Meson's record of a test run: names what failed and ends with the line `N passed, N failed[, N skipped]`.

    summary.py build/meson-logs/testlog.json

The exit code is 0 only if something passed and nothing failed. A result of a kind not known here counts as a failure.
"""

import json
import re
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP", "IGNORED"}
SHOWN_MAX = 4
LINES_MAX = 20
LINE_MAX = 240
TELLS_WHY = re.compile(r"fail|error|wrong|assert|traceback", re.IGNORECASE)


def essence_of(test):
    """What a failed test said: lines that tell why, and the last ones. The whole is far above, or in a lost file."""
    said = [line[:LINE_MAX] for line in (test.get("stdout", "") + test.get("stderr", "")).splitlines() if line.strip()]
    ending = said[-LINES_MAX:]
    reasons = [line for line in said[:-LINES_MAX] if TELLS_WHY.search(line)]
    return [f"\n--- {test['name']}:", *reasons[:LINES_MAX], *(["..."] if len(said) > LINES_MAX else []), *ending]


def main(path):
    with open(path, encoding="utf-8") as log:
        tests = [json.loads(line) for line in log if line.strip()]
    passed = [test for test in tests if test["result"] in PASSED]
    skipped = [test for test in tests if test["result"] in SKIPPED]
    failed = [test for test in tests if test["result"] not in PASSED | SKIPPED]

    print(f"\nslowest of {len(tests)} tests:")
    for test in sorted(tests, key=lambda test: -test.get("duration", 0))[:5]:
        print(f"  {test.get('duration', 0):7.1f} s  {test['name']}")
    for test in skipped:
        print(f"skipped: {test['name']}")
    for test in failed[:SHOWN_MAX]:
        print("\n".join(essence_of(test)))
    for test in failed:
        print(f"failed ({test['result'].lower()}): {test['name']}")

    closing = f"{len(passed)} passed, {len(failed)} failed"
    print(closing + (f", {len(skipped)} skipped" if skipped else ""))
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
