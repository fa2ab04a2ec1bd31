#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Counts the single tests in meson's logs and prints "N passed, N failed".

A TAP program counts as its subtests; a program that ended badly, or was
skipped, counts as at least one failure: a skipped test proves nothing. What
needs rights, a library or a processor that not every machine has (control groups, users,
AVX-512) may be skipped, and is said at the end. So is a test that failed and passed when it
was run again alone (a log LOG-again.json beside LOG.json).

  count-tests.py LOG…          counts
  count-tests.py --again LOG…  prints the programs that failed and may be run again
"""
import json
import os
import re
import sys

MAY_BE_SKIPPED = re.compile(r"(^|[ /])(storm/(parts|storm)|system-bus|bus/(gate-relay|watchdog)|"
                            r"memory/sources|model/prepared|kernels/amx-tiles)$")
# What these report is a fault even if it doesn't happen every time.
REPORTS = re.compile(r"(Address|Thread|Leak|UndefinedBehavior)Sanitizer|runtime error: |== ERROR SUMMARY: [1-9]")
MAX_AGAIN = 5  # more of them have a cause of their own


def read(path):
    with open(path, encoding="utf-8") as log:
        return [json.loads(line) for line in log]


def is_bad(test):
    return test["result"] not in ("OK", "SKIP")


def may_repeat(test):
    return is_bad(test) and not REPORTS.search((test.get("stdout") or "") + (test.get("stderr") or ""))


def count(test):
    """Subtests that passed and failed, and whether some could not be run here."""
    output = test.get("stdout") or ""
    good = len(re.findall(r"^ok \d+(?!.*# SKIP)", output, re.M))
    bad = len(re.findall(r"^not ok \d+", output, re.M))
    skips = len(re.findall(r"^ok \d+.*# SKIP", output, re.M))
    is_skip = test["result"] == "SKIP"
    excused = (skips or is_skip) and MAY_BE_SKIPPED.search(test["name"]) is not None
    if not excused:
        bad += max(skips, is_skip)
    if is_bad(test):
        bad = max(bad, 1)
    elif good + bad == 0 and not is_skip:
        good = 1
    return good, bad, excused


def main():
    if sys.argv[1:2] == ["--again"]:
        failed = [test for path in sys.argv[2:] for test in read(path) if is_bad(test)]
        if len(failed) <= MAX_AGAIN and all(map(may_repeat, failed)):
            print(*(test["name"].split(" / ")[-1] for test in failed))
        return 0

    passed = failed = 0
    skipped, unstable = [], []
    for path in sys.argv[1:]:
        if "-again" in os.path.basename(path):
            continue
        later = re.sub(r"(testlog-\d+)", r"\1-again", path)
        later = read(later) if later != path and os.path.exists(later) else []
        good_later = {test["name"]: test for test in later if not is_bad(test)}
        for test in read(path):
            if may_repeat(test) and test["name"] in good_later:
                unstable.append(test["name"])
                test = good_later[test["name"]]
            good, bad, excused = count(test)
            passed += good
            failed += bad
            if excused:
                skipped.append(test["name"])
            if bad:
                print(f"failed: {test['name']} ({test['result']})")

    for name in skipped:
        print(f"NOT TESTED on this machine, or not in full: {name}")
    for name in unstable:
        print(f"UNSTABLE, passed only when it was run again alone: {name}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


sys.exit(main())
