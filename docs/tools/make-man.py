#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Makes a man page with lowdown from one or more pages of Markdown.

    make-man.py LOWDOWN VERSION OUTPUT PAGE.md…

The first line of the first page is “# NAME(SECTION): what it is”; the first lines of the
others become sections, and theirs subsections. A list whose items all begin with code and
a colon becomes one of tagged paragraphs. Links to other pages of the tree become bare text.
"""

import os
import re
import subprocess
import sys
import time

import pages

# “- `-m`, `--model=FILE` (default `x`): The GGUF file”
TAGGED = re.compile(r"- ((?:`[^`]+`(?:, )?)+(?: \([^:]*?\))?): (.*)")
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]+\)")
COMMENT = re.compile(r"<!--.*?-->", re.S)


def make_tagged(lines):
    """Lists of tagged items as definition lists; other lists and text as they are."""
    out, at = [], 0
    while at < len(lines):
        end, items = at, []
        while end < len(lines) and lines[end].startswith(("- ", "  ")):
            if lines[end].startswith("- "):
                items.append(lines[end])
            end += 1
        if not items or not lines[at].startswith("- "):
            out.append(lines[at])
            at += 1
            continue
        block = lines[at:end]
        at = end
        if not all(TAGGED.match(item) for item in items):
            out += block
            continue
        for line in block:
            if match := TAGGED.match(line):
                out += ["", match.group(1), "", f": {match.group(2)}"]
            else:
                out.append("    " + line.strip())
        out.append("")
    return out


def shape_heading(line, is_first_page):
    """Sections in capitals, but not names that have a case of their own."""
    level, _, text = line.partition(" ")
    if not is_first_page:
        level += "#"
    if level == "##" and "." not in text:
        text = text.upper()
    # lowdown's first level is a section
    return f"{level[1:]} {text}"


def shape(text, is_first_page):
    out = []
    for is_code, lines in pages.split_code(COMMENT.sub("", text)):
        if is_code:
            out += [""] + ["    " + line for line in lines] + [""]
            continue
        lines = [LINK.sub(r"\1", line) for line in lines]
        for line in make_tagged(lines):
            out.append(shape_heading(line, is_first_page) if re.match(r"#+ ", line) else line)
    return "\n".join(out)


def polish(roff):
    """What lowdown's man output lacks: headings on one line, real tagged paragraphs, hyphens
    that can be copied, and no font that mandoc doesn't know."""
    roff = re.sub(r"^\.LP\n(.*)\n\.if n \\\n\.sp -1v\n\.if t \\\n\.sp -0\.25v\n\.IP \"\" 5n\n",
                  r".TP\n\1\n", roff, flags=re.M)
    roff = re.sub(r"^\.(S[HS])\n(.*)\n(?:\.LP\n)?", r".\1 \2\n", roff, flags=re.M)
    roff = re.sub(r"^(\.SH NAME\n\S+) - ", r"\1 \\- ", roff, flags=re.M)
    roff = re.sub(r"^\.if [nt] \\\n\.sp -[\d.]+v?\n", "", roff, flags=re.M)
    # \\% keeps a word whole, at its beginning only
    roff = re.sub(r"(^|\s)?\\fC(.*?)\\fR", make_code, roff, flags=re.M | re.S)
    return re.sub(r"^\.EX\n(.*?)^\.EE$", lambda m: f".RS 4\n.EX\n{hyphens(m.group(1))}.EE\n.RE",
                  roff, flags=re.M | re.S)


def make_code(match):
    before, code = match.groups()
    whole = r"\%" if before is not None else ""
    return rf"{before or ''}\fB{whole}{hyphens(code)}\fR"


def hyphens(roff):
    """Hyphens as the ASCII character that they are in code."""
    return re.sub(r"(?<!\\)-", r"\\-", roff)


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    lowdown, version, output, *sources = sys.argv[1:]
    texts = [pages.read(source) for source in sources]
    head, _, body = texts[0].partition("\n")
    match = pages.MAN_TITLE.fullmatch(head)
    if match is None:
        sys.exit(f"make-man: {sources[0]} does not begin with “# NAME(SECTION): what it is”")
    name, section, summary = match.groups()

    # Whatever stands before the first heading describes.
    body = body.strip()
    if not body.startswith("## "):
        body = f"## Description\n\n{body}"
    shaped = [f"# NAME\n\n{name} - {summary}\n", shape(body, True)]
    shaped += [shape(text, False) for text in texts[1:]]
    date = []
    if "SOURCE_DATE_EPOCH" in os.environ:
        day = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))
        date = ["-M", time.strftime("date=%Y-%m-%d", day)]
    done = subprocess.run(
        [lowdown, "-s", "-tman", "--nroff-nolinks", "--out-no-smarty", "--parse-no-metadata",
         "-M", f"title={name}", "-M", f"section={section}", "-M", f"source=llmsvc {version}",
         "-M", "volume=llmsvc", *date],
        input="\n\n".join(shaped), text=True, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"make-man: {lowdown}: {done.stderr}")
    pages.write(output, polish(done.stdout))


if __name__ == "__main__":
    main()
