#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Every message there is in the sources is translated into every language: no source
is forgotten, no message missing, guessed or left over, and no translation prints
other arguments than its message."""

import pathlib
import re
import subprocess
import sys
import tempfile

import po

# Sources whose messages gettext() translates: unmarked ones would stay English.
MARKED = ("libllmsvc", "llmctl")
HELPERS = ["--keyword", "--from-code=UTF-8", "--keyword=g_set_error:4",
           "--keyword=g_set_error_literal:4", "--keyword=g_error_new:3",
           "--keyword=g_error_new_literal:3", "--keyword=g_prefix_error:2",
           "--keyword=g_task_return_new_error:4"]
# llmsvcd's own --help and llmsvc-tool speak to a terminal; lines and JSON are read by clients.
PROGRAMS = ("service/main.c", "service/tool/", "libllmsvc/common/llmsvc-json.c",
            "libllmsvc/common/llmsvc-line.c")
PLAIN_ERROR = re.compile(r"(?:g_set_error|g_error_new|g_task_return_new_error)"
                         r" \([^;]*?LLMSVC_ERROR,[^;]*;")
HOW = "run scripts/update-po.sh and translate what it leaves open"


def find_sources():
    found = [*po.ROOT.glob("data/polkit/*.policy")]
    for folder in ("libllmsvc", "llmctl", "service"):
        found += po.ROOT.glob(f"{folder}/**/*.c")
    found += po.ROOT.glob("clients/**/*.js")
    return sorted(str(path.relative_to(po.ROOT)) for path in found)


def check_sources(work):
    """POTFILES lists what has messages; the library and llmctl mark theirs."""
    faults = []
    listed = po.read_list(po.PO / "POTFILES")
    faults += [f"po/POTFILES: {name} is not there" for name in listed
               if not (po.ROOT / name).is_file()]
    faults += [f"po/POTFILES: {name} is listed twice" for name in sorted(set(listed))
               if listed.count(name) > 1]

    rest = [name for name in find_sources() if name not in listed]
    for name in rest:
        output = work / "one.pot"
        output.unlink(missing_ok=True)
        po.extract([name], output)
        if output.exists():
            faults.append(f"{name} has messages and is not in po/POTFILES: {HOW}")

    for name in find_sources():
        if not name.startswith(MARKED):
            continue
        output = work / "marks.pot"
        output.unlink(missing_ok=True)
        po.extract([name], output, HELPERS)
        if output.exists():
            # "%s: " before another message says nothing
            faults += [f"{name}: “{entry.id}” is not marked with _()" for entry in po.read(output)
                       if re.search("[A-Za-z]", re.sub("%[a-z]+", "", entry.id))]
    return faults


def check_errors():
    """What the service says with arguments can only be translated if the error keeps them."""
    faults = []
    for name in find_sources():
        if not name.startswith(("service/", "libllmsvc/common/")) or name.startswith(PROGRAMS):
            continue
        for call in PLAIN_ERROR.findall((po.ROOT / name).read_text(encoding="utf-8")):
            if re.search(r'"[^"]*%', call):
                faults.append(f"{name}: llm_fail() or llmsvc_error_new() for {call!r}")
    return faults


def make_template(work):
    """The messages of all sources; faults of the messages themselves."""
    template = work / "llmsvc.pot"
    complaints = po.extract(po.read_list(po.PO / "POTFILES"), template)
    faults = [f"xgettext: {line}" for line in complaints.splitlines()]
    for entry in po.read(template):
        if entry.id.replace("%%", "").endswith("%"):
            faults.append(f"{entry.references[0]}: “{entry.id}” is cut short by a macro: use %zu or %ju")
    return template, faults


def check_quotes(language, entry):
    """German quotation marks stand in pairs of their own; so do Chinese ones."""
    for text in entry.translations:
        if language == "de" and text.count("„") != text.count("“"):
            return f"de: “{text}” has quotation marks without a partner"
        if language == "zh_CN" and text.count("“") != text.count("”"):
            return f"zh_CN: “{text}” has quotation marks without a partner"
    return None


def check_language(work, template, language):
    path = po.PO / f"{language}.po"
    merged = work / f"{language}.po"
    faults = []

    result = subprocess.run(["msgfmt", "--check-format", "--check-domain", "--output-file=/dev/null",
                             str(path)], capture_output=True, text=True)
    if result.returncode != 0:
        faults.append(f"msgfmt: {result.stderr.strip()}")

    po.run("msgmerge", "--quiet", "--no-fuzzy-matching", f"--output-file={merged}", str(path),
           str(template))
    for entry in po.read(merged):
        if entry.obsolete:
            faults.append(f"{language}: “{entry.id}” is in no source any more: {HOW}")
        elif "fuzzy" in entry.flags:
            faults.append(f"{language}: the translation of “{entry.id}” is a guess (fuzzy)")
        elif not all(entry.translations):
            faults.append(f"{language}: “{entry.id}” is not translated: {HOW}")
        else:
            faults.append(check_quotes(language, entry))
    return [fault for fault in faults if fault]


def main():
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        faults = check_sources(work) + check_errors()
        template, more = make_template(work)
        faults += more
        there = sorted(path.stem for path in po.PO.glob("*.po"))
        if there != sorted(po.LANGUAGES):
            faults.append(f"po/LINGUAS lists {po.LANGUAGES}, but there are {there}")
        for language in po.LANGUAGES:
            faults += check_language(work, template, language)
        n_messages = len(po.read(template))

    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{n_messages} messages, {len(po.LANGUAGES)} languages, {len(faults)} faults")
    return 1 if faults or n_messages == 0 or len(po.LANGUAGES) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
