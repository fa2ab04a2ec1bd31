# SPDX-License-Identifier: LGPL-2.1-or-later

"""Asks bash, zsh and fish what they would offer, without a person and without their
own configuration. Each function takes the folder of completions, the environment and a
line, and returns the set of candidates."""

import os
import pty
import re
import subprocess
import tempfile

TIME_LIMIT_S = 60

# What readline does before it calls a completion function: words are split at COMP_WORDBREAKS.
BASH = r"""
set -u
source "$1"; name=$2; COMP_LINE=$3; COMP_POINT=${#3}
COMP_WORDS=(); shift 3; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
specification=$(complete -p "$name")
[[ $specification =~ -F\ ([^ ]+) ]]
"${BASH_REMATCH[1]}" "$name" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]-}"
printf '%s\n' "${COMPREPLY[@]}"
"""

# compadd is where all of zsh's completion ends: what it would add is written down.
ZSH = r"""
fpath=("$FOLDER" $fpath)
PS1= PS2= HISTFILE=
autoload -Uz compinit
compinit -D -u
compadd () {
  local -a hits
  # calls that only fill variables add nothing
  if [[ " ${(j: :)@[1,${@[(i)--]}]} " == *' -'[OAD]' '* ]]; then
    builtin compadd "$@"
    return
  fi
  builtin compadd -O hits "$@"
  (( $#hits )) && print -rl -- $hits >>"$CAPTURED"
  builtin compadd "$@"
}
zle-line-init () {
  BUFFER=$LINE CURSOR=${#LINE}
  zle complete-word
  BUFFER=exit
  zle accept-line
}
zle -N zle-line-init
zstyle ':completion:*' menu no
"""


def run(arguments, environment):
    done = subprocess.run(arguments, env=environment, text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=TIME_LIMIT_S, check=False)
    if done.returncode != 0 or done.stderr:
        raise AssertionError(f"{arguments[0]}: {done.returncode}: {done.stderr}")
    return done.stdout.splitlines()


def split_for_bash(line):
    """The words of readline: “=” and “:” are words of their own, quotes stay."""
    words = re.findall(r"""(?:"[^"]*"?|'[^']*'?|\\.|[^\s=:"'\\])+|[=:]+""", line)
    return words + [""] if line[-1].isspace() else words


def ask_bash(folder, environment, line):
    name = line.split()[0]
    found = run(["bash", "--norc", "--noprofile", "-c", BASH, "bash",
                 str(folder / "bash" / name), name, line, *split_for_bash(line)], environment)
    return {candidate for candidate in found if candidate}


def ask_fish(folder, environment, line):
    name = line.split()[0]
    script = f"source {folder}/fish/{name}.fish; complete --do-complete $argv[1]"
    with tempfile.TemporaryDirectory() as home:
        environment = dict(environment, HOME=home, XDG_CONFIG_HOME=home, XDG_DATA_HOME=home)
        found = run(["fish", "--no-config", "--command", script, line], environment)
    return {candidate.split("\t")[0] for candidate in found}


def ask_zsh(folder, environment, line):
    with tempfile.TemporaryDirectory() as home:
        captured = os.path.join(home, "captured")
        with open(os.path.join(home, ".zshrc"), "w", encoding="utf-8") as file:
            file.write(ZSH)
        environment = dict(environment, HOME=home, ZDOTDIR=home, TERM="dumb", LINE=line,
                           FOLDER=str(folder / "zsh"), CAPTURED=captured)
        master, slave = pty.openpty()
        process = subprocess.Popen(["zsh", "-d", "-i"], env=environment, stdin=slave,
                                   stdout=slave, stderr=slave, start_new_session=True)
        os.close(slave)
        try:
            process.wait(timeout=TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            os.close(master)
        if not os.path.exists(captured):
            return set()
        with open(captured, encoding="utf-8") as file:
            return set(file.read().splitlines())


ASK = {"bash": ask_bash, "fish": ask_fish, "zsh": ask_zsh}
