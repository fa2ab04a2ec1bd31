#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Makes one page of what llmctl was seen to do.

    make-captures.py OUTPUT CAPTURE.txt…

The captures are all the text files of their folder, each shown under its name.
"""

import pathlib
import sys

import pages

HEAD = """# llmctl at work

What it showed with the small demo model on a private bus, written down by `scripts/capture-cli.py`. What each command
takes is in `llmctl(1)`.
"""


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    captures = [pathlib.Path(path) for path in sys.argv[2:]]
    missing = {path.name for path in captures[0].parent.glob("*.txt")} - {c.name for c in captures}
    if missing:
        sys.exit(f"make-captures: not in the list of docs/meson.build: {', '.join(sorted(missing))}")
    out = [HEAD]
    for capture in captures:
        out += [f"## {capture.stem}", "", "```", pages.read(capture).rstrip(), "```", ""]
    pages.write(sys.argv[1], "\n".join(out))


if __name__ == "__main__":
    main()
