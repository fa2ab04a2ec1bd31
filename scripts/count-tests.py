#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Counts the single tests in meson's logs and prints "N passed, N failed".

A TAP program counts as its subtests; a program that ended badly, or was
skipped, counts as at least one failure: a skipped test proves nothing.
"""
import json
import re
import sys

passed = failed = 0
for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as log:
        for line in log:
            test = json.loads(line)
            output = test.get("stdout") or ""
            good = len(re.findall(r"^ok \d+(?!.*# SKIP)", output, re.M))
            bad = len(re.findall(r"^not ok \d+|^ok \d+.*# SKIP", output, re.M))
            if test["result"] != "OK":
                bad = max(bad, 1)
            elif good + bad == 0:
                good = 1
            passed += good
            failed += bad
            if bad:
                print(f"failed: {test['name']} ({test['result']})")

print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed or not passed else 0)
