#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Counts the single tests in meson's logs and prints "N passed, N failed".

A TAP program counts as its subtests; a program that ended badly, or was
skipped, counts as at least one failure: a skipped test proves nothing. What
needs rights or a library that not every machine has (control groups, users) may be
skipped, and is said at the end.
"""
import json
import re
import sys

MAY_BE_SKIPPED = re.compile(r"(^|[ /])(storm/(parts|storm)|system-bus|bus/(gate-relay|watchdog)|"
                            r"memory/sources|model/prepared)$")

passed = failed = 0
skipped = []
for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as log:
        for line in log:
            test = json.loads(line)
            output = test.get("stdout") or ""
            good = len(re.findall(r"^ok \d+(?!.*# SKIP)", output, re.M))
            bad = len(re.findall(r"^not ok \d+", output, re.M))
            skips = len(re.findall(r"^ok \d+.*# SKIP", output, re.M))
            is_skip = test["result"] == "SKIP"
            if (skips or is_skip) and MAY_BE_SKIPPED.search(test["name"]):
                skipped.append(test["name"])
            else:
                bad += max(skips, is_skip)
            if test["result"] not in ("OK", "SKIP"):
                bad = max(bad, 1)
            elif good + bad == 0 and not is_skip:
                good = 1
            passed += good
            failed += bad
            if bad:
                print(f"failed: {test['name']} ({test['result']})")

for name in skipped:
    print(f"NOT TESTED on this machine, or not in full: {name}")
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed or not passed else 0)
