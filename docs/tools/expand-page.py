#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Fills in what a page leaves to the programs.

    expand-page.py PAGE.md OUTPUT NAME=PROGRAM…

In the page a line “<!-- options of NAME [COMMAND] -->” is replaced by the options that
the program's --help lists, and “<!-- commands of llmctl -->” by the commands, with their
options, that “llmctl help --json” lists. What --help says in the user's language is asked
for in English.
"""

import json
import os
import re
import subprocess
import sys

import pages

MARKER = re.compile(r"<!-- (options|commands) of ([\w-]+)(?: ([\w-]+))? -->")
# “  -m, --model=FILE     The GGUF file”
OPTION = re.compile(r"  (?:-(\w), )?--([\w-]+)(?:=(\S+))?\s{2,}(\S.*)")
# Every program has it, and it says nothing.
SAME_EVERYWHERE = {"help"}


def run(program, *arguments):
    environment = dict(os.environ, LC_ALL="C.UTF-8", LANGUAGE="")
    done = subprocess.run([program, *arguments], env=environment, text=True,
                          capture_output=True, timeout=60, check=False)
    if done.returncode != 0:
        sys.exit(f"expand-page: {program} {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def sentence(text):
    """A text of a program as a sentence of Markdown: nothing in it is markup but options."""
    text = re.sub(r"([\\`*_\[\]])", r"\\\1", text).replace("<", "&lt;")
    text = re.sub(r"(?<![\w-])(--[a-z][a-z-]*)", r"`\1`", text)
    return text if text.endswith((".", "!", "?", ":")) else text + "."


def show_option(option):
    """One item of a list, from the keys long, short, argument and help."""
    value = option.get("argument")
    name = f"`--{option['long']}{'=' + value if value else ''}`"
    if option.get("short"):
        name = f"`-{option['short']}`, {name}"
    return f"- {name}: {sentence(option['help'])}"


def list_help(program, command):
    """The options of a program that prints GOption's help."""
    output = run(program, *([command] if command else []), "--help")
    found = []
    for line in output.splitlines():
        if match := OPTION.fullmatch(line):
            short, name, value, text = match.groups()
            if name not in SAME_EVERYWHERE:
                found.append(show_option(
                    {"long": name, "short": short, "argument": value, "help": text}))
    return found


def list_commands(commands, above):
    """Each command under a heading of its own, those of a group after it."""
    out = []
    for command in commands:
        name = f"{above} {command['name']}"
        below = command.get("commands", [])
        if command.get("hidden"):
            continue
        if below:
            out += list_commands(below, name)
            continue
        usage = " ".join([name, "[OPTION…]"] + [command.get("parameters") or ""]).strip()
        out += [f"### {name}", "", f"    {usage}", "", sentence(command["summary"])]
        if command.get("description"):
            for paragraph in command["description"].splitlines():
                out += ["", sentence(paragraph)]
        options = [show_option(option) for option in command.get("options", [])]
        out += ["", *options, ""] if options else [""]
    return out


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    programs = dict(argument.split("=", 1) for argument in sys.argv[3:])
    out = []
    for line in pages.read(sys.argv[1]).splitlines():
        match = MARKER.fullmatch(line)
        if match is None:
            out.append(line)
            continue
        what, name, command = match.groups()
        if name not in programs:
            sys.exit(f"expand-page: {sys.argv[1]}: no program was given for “{name}”")
        if what == "options" and name != "llmctl":
            out += list_help(programs[name], command)
            continue
        tree = json.loads(run(programs[name], "help", "--json"))
        out += (list_commands(tree["commands"], name) if what == "commands"
                else [show_option(option) for option in tree["options"]])
    pages.write(sys.argv[2], "\n".join(out) + "\n")


if __name__ == "__main__":
    main()
