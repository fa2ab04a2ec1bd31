# SPDX-License-Identifier: LGPL-2.1-or-later

"""What the programs say of themselves, for the gates and the tests of completions."""

import json
import os
import re
import subprocess

OPTION = re.compile(r"^ +(?:-(\w), )?--([\w-]+)(?:=(\S+))?", re.M)
COMMAND = re.compile(r"^  ([a-z-]+) +\S", re.M)


def run(program, *arguments):
    environment = dict(os.environ, LC_ALL="C.UTF-8", LANGUAGE="")
    done = subprocess.run([program, *arguments], env=environment, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=True)
    return done.stdout


def list_help_options(program, *command):
    """Returns {"--model", …} of --help."""
    return {f"--{name}" for _, name, _ in OPTION.findall(run(program, *command, "--help"))}


def list_help_commands(program):
    """Returns {"inspect", …} of --help."""
    return set(COMMAND.findall(run(program, "--help").split("Commands:", 1)[1]))


def read_tree(llmctl):
    return json.loads(run(llmctl, "help", "--json"))


def flatten(commands, above=()):
    """Yields (words, command) of every command that runs, without those in hiding."""
    for command in commands:
        words = (*above, command["name"])
        if command.get("hidden"):
            continue
        if command.get("commands"):
            yield from flatten(command["commands"], words)
        else:
            yield words, command
