#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The man pages have every command, option, and exit status of the programs, and no other.

Arguments: llmctl, llmsvcd, llmsvc-tool and the folder of the pages made.
"""

import pathlib
import re
import sys

import programs

ROOT = pathlib.Path(__file__).resolve().parents[2]
# --help is everywhere and said once.
SAME_EVERYWHERE = {"--help"}
# It prints nothing, so it has no JSON to tell of.
SILENT = {"llmctl set"}


def read_sections(path):
    """Returns {heading: text} of a man page, without its escapes."""
    text = re.sub(r"\\f[BIR]|\\%", "", path.read_text(encoding="utf-8")).replace(r"\-", "-")
    parts = re.split(r"^\.S[HS] (.+)$", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def list_options(section):
    """The options that have a tagged paragraph."""
    return {name for tag in re.findall(r"^\.TP\n(.+)$", section, re.M)
            for name in re.findall(r"(?:^|, )(--[\w-]+)", tag)}


def compare(where, page, program, faults):
    for name in sorted(program - page):
        faults.append(f"{where}: the program knows {name}, the page does not")
    for name in sorted(page - program):
        faults.append(f"{where}: the page has {name}, the program does not")


def check_llmctl(llmctl, page, faults):
    sections = read_sections(page)
    tree = programs.read_tree(llmctl)
    commands = {" ".join(("llmctl", *words)): command
                for words, command in programs.flatten(tree["commands"])}
    compare("llmctl(1)", {s for s in sections if s.startswith("llmctl ")}, set(commands), faults)
    compare("llmctl(1) OPTIONS", list_options(sections.get("OPTIONS", "")),
            {f"--{option['long']}" for option in tree["options"]}, faults)
    for name, command in commands.items():
        if name not in SILENT and "--json" not in command.get("description", ""):
            faults.append(f"{name}: its help does not say what --json prints")
        compare(name, list_options(sections.get(name, "")),
                {f"--{option['long']}" for option in command.get("options", [])}, faults)

    header = (ROOT / "llmctl/llmctl.h").read_text(encoding="utf-8")
    codes = set(re.findall(r"LLMCTL_EXIT_\w+ = (\d+)", header))
    compare("llmctl(1) EXIT STATUS",
            set(re.findall(r"^\.TP\n(\d+)$", sections.get("EXIT STATUS", ""), re.M)), codes, faults)
    return len(commands)


def check_llmsvcd(llmsvcd, page, faults):
    compare("llmsvcd(8)", list_options(read_sections(page).get("OPTIONS", "")),
            programs.list_help_options(llmsvcd) - SAME_EVERYWHERE, faults)
    return 1


def check_llmsvc_tool(tool, page, faults):
    sections = read_sections(page)
    commands = programs.list_help_commands(tool)
    compare("llmsvc-tool(1)", {s.split()[1] for s in sections if s.startswith("llmsvc-tool ")},
            commands, faults)
    for command in sorted(commands):
        compare(f"llmsvc-tool {command}",
                list_options(sections.get(f"llmsvc-tool {command}", "")),
                programs.list_help_options(tool, command) - SAME_EVERYWHERE, faults)
    return len(commands)


def main():
    llmctl, llmsvcd, tool = sys.argv[1:4]
    folder = pathlib.Path(sys.argv[4])
    faults = []
    n_commands = check_llmctl(llmctl, folder / "llmctl.1", faults)
    n_commands += check_llmsvcd(llmsvcd, folder / "llmsvcd.8", faults)
    n_commands += check_llmsvc_tool(tool, folder / "llmsvc-tool.1", faults)
    for fault in faults:
        print(f"check-programs: {fault}", file=sys.stderr)
    print(f"check-programs: {n_commands} commands, {len(faults)} faults")
    return 1 if faults or n_commands < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
