#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Renders conversations with each *.jinja of this folder into *.golden, by
Jinja with the settings that published templates are made for. Needs
python3-jinja2; run it only after a change of a template or a conversation."""

import pathlib

from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = pathlib.Path(__file__).parent
BOS, EOS = "<s>", "</s>"

SYSTEM = ("system", "You are a helpful assistant; be brief.")
CONVERSATIONS = {
    "user": [("user", "Hello")],
    "system-user": [SYSTEM, ("user", "Hello")],
    "spaces": [("system", " a\n"), ("user", " \t Hello\n\n ")],
    "turns": [("user", "Hello"), ("assistant", "Hi there"), ("user", "Who are you?")],
    "long": [SYSTEM, ("user", "Hello"), ("assistant", "Hi there"), ("user", "Who\nare you?"),
             ("assistant", "   I am an assistant   "), ("user", "Größe?")],
    "closed": [("user", "Hello"), ("assistant", "Hi there")],
    "no-answer": [("user", "Hello")],
    "tools": [SYSTEM, ("user", "Alarms?"), ("assistant", "<tool_call>{}</tool_call>"),
              ("tool", '{"n": 1}'), ("tool", '{"n": 2}'), ("assistant", "Two."), ("user", "Ok")],
}
CLOSED = {"closed", "no-answer"}

# What a template's source makes of these is no conversation: it raises an
# error, leaves the system text out, puts it into the last user message, or
# begins an answer that nobody asked for.
SKIPPED = {
    "gemma": {"system-user", "spaces", "long"},
    "mistral-first": {"system-user", "spaces", "long"},
    "mistral-space": {"system-user", "spaces", "long"},
    "mistral-v3": {"long"},
    "mistral-v3-tekken": {"long"},
    "phi-3-first": {"system-user", "spaces", "long", "no-answer"},
}
HAS_TOOLS = {"chatml", "chatml-smollm2", "chatml-qwen2.5"}


def raise_exception(message):
    raise ValueError(message)


def escape(text, in_list=False):
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
    if text.startswith(" "):
        text = "\\s" + text[1:]
    if text.endswith(" "):
        text = text[:-1] + "\\s"
    return text.replace(";", "\\;") if in_list else text


def main():
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = raise_exception
    for path in sorted(HERE.glob("*.jinja")):
        template = environment.from_string(path.read_text().rstrip("\n"))
        lines = []
        for name, messages in CONVERSATIONS.items():
            if name in SKIPPED.get(path.stem, ()) or (name == "tools"
                                                      and path.stem not in HAS_TOOLS):
                continue
            text = template.render(
                messages=[{"role": role, "content": content} for role, content in messages],
                add_generation_prompt=name not in CLOSED, bos_token=BOS, eos_token=EOS)
            parts = [part for message in messages for part in message]
            lines += [f"[{name}]",
                      "messages=" + "".join(escape(part, True) + ";" for part in parts),
                      f"open={'false' if name in CLOSED else 'true'}",
                      "text=" + escape(text.removeprefix(BOS)), ""]
        path.with_suffix(".golden").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
