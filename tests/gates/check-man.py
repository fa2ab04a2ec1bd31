#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The man pages are free of faults that mandoc knows. Arguments: mandoc and the pages."""

import os
import pathlib
import re
import subprocess
import sys

# A page made from a working copy has no date; a package sets SOURCE_DATE_EPOCH.
EXPECTED = "missing date" if "SOURCE_DATE_EPOCH" not in os.environ else None
WANTED = {"NAME", "DESCRIPTION", "SEE ALSO"}


def check(mandoc, page):
    """Returns what is wrong with one page."""
    done = subprocess.run([mandoc, "-T", "lint", "-W", "warning", page], text=True,
                          capture_output=True, check=False)
    faults = [line for line in (done.stdout + done.stderr).splitlines()
              if EXPECTED is None or EXPECTED not in line]

    text = pathlib.Path(page).read_text(encoding="utf-8")
    # the interface's description is that of its first section
    wanted = WANTED if not re.search(r'^\.TH "org\.', text, re.M) else {"NAME", "ERRORS"}
    for section in sorted(wanted - set(re.findall(r"^\.SH (.+)$", text, re.M))):
        faults.append(f"{page}: there is no section {section}")
    # what should have been made into something else
    for match in re.finditer(r"<!--|```|\]\(", text):
        faults.append(f"{page}: “{match.group(0)}” is left of the Markdown")
    return faults


def main():
    mandoc, *pages = sys.argv[1:]
    faults = [fault for page in pages for fault in check(mandoc, page)]
    for fault in faults:
        print(f"check-man: {fault}", file=sys.stderr)
    print(f"check-man: {len(pages)} pages, {len(faults)} faults")
    return 1 if faults or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
