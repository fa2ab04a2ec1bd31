#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""What Jinja makes of the templates of this folder and of ../snippets.txt.

Writes oracle.json: for each template and each of the conversations the text, or
null where the template refuses it. Renders as apply_chat_template() of
transformers does: the same sandbox, options, extensions and functions, with the
clock at a fixed time. Needs python3-jinja2; run it only after a change of a
template, a snippet or a conversation:

    tests/data/templates/public/make-oracle.py
"""

import datetime
import json
import pathlib

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = pathlib.Path(__file__).parent
NOW = datetime.datetime(2025, 7, 29, 14, 5, 9)

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather at a place.\nNow.",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "Name of the city"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        "days": {"type": "integer", "description": "How many", "minimum": 1}},
        "required": ["city"]},
    "return": {"type": "string", "description": "A report"}}}
ALARM = {"type": "function", "function": {
    "name": "set_alarm", "description": "Sets an alarm",
    "parameters": {"type": "object", "properties": {
        "time": {"type": "string", "description": "hh:mm"},
        "days": {"type": "array", "items": {"type": "string"}, "description": "Days \"of\" week"},
        "options": {"type": "object", "description": "More", "properties": {
            "loud": {"type": "boolean", "description": "Is it loud?"},
            "volume": {"type": "number", "description": "0 to 1"}}, "required": ["loud"]}},
        "required": ["time", "days"]}}}
NOTHING = {"type": "function", "function": {
    "name": "now", "description": "The time", "parameters": {"type": "object", "properties": {}}}}

SYSTEM = {"role": "system", "content": "You are a helpful assistant; be brief."}
HELLO = {"role": "user", "content": "Hello"}
HI = {"role": "assistant", "content": "Hi there"}


def user(text):
    return {"role": "user", "content": text}


def call(name, arguments, n=1, content=""):
    return {"role": "assistant", "content": content, "tool_calls": [
        {"id": f"call{n:05d}", "type": "function",
         "function": {"name": name, "arguments": arguments}}]}


def result(text, n=1, name="get_weather"):
    return {"role": "tool", "name": name, "tool_call_id": f"call{n:05d}", "content": text}


PARALLEL = {"role": "assistant", "content": "", "tool_calls": [
    {"id": "call00001", "type": "function",
     "function": {"name": "get_weather", "arguments": {"city": "Köln", "days": 2}}},
    {"id": "call00002", "type": "function",
     "function": {"name": "set_alarm",
                  "arguments": {"time": "07:30", "days": ["Mo", "Tu"],
                                "options": {"loud": True, "volume": 0.5, "tag": None}}}}]}
TURN = [user("Weather in Köln?"), call("get_weather", {"city": "Köln"}),
        result('{"temperature": 21.5}')]
THOUGHT = {"role": "assistant", "content": "Four.", "reasoning_content": "2 and 2\nmake 4"}
INLINE = {"role": "assistant", "content": "<think>\n2 and 2\n</think>\n\nFour."}

CONVERSATIONS = {
    "user": {"messages": [HELLO]},
    "system": {"messages": [SYSTEM, HELLO]},
    "spaces": {"messages": [{"role": "system", "content": " a\n"}, user(" \t Hello\n\n ")]},
    "turns": {"messages": [HELLO, HI, user("Who are you?")]},
    "long": {"messages": [SYSTEM, HELLO, HI, user("Who\nare you?"),
                          {"role": "assistant", "content": "   I am   "}, user("Größe? 你好 🙂")]},
    "closed": {"messages": [SYSTEM, HELLO, HI], "add_generation_prompt": False},
    "empty": {"messages": []},
    "quotes": {"messages": [user("'a' \"b\" \\ {{ x }} {% if %} <|im_end|></s>\u2028\x0b\t")]},
    "two-systems": {"messages": [SYSTEM, {"role": "system", "content": "Really."}, HELLO]},
    "late-system": {"messages": [HELLO, HI, SYSTEM, user("And?")]},
    "assistant-first": {"messages": [HI, HELLO]},
    "two-users": {"messages": [HELLO, user("Are you there?")]},
    "tools": {"messages": [HELLO], "tools": [WEATHER, ALARM, NOTHING]},
    "system-tools": {"messages": [SYSTEM, HELLO], "tools": [WEATHER]},
    "call": {"messages": TURN, "tools": [WEATHER, ALARM]},
    "call-without-tools": {"messages": TURN},
    "call-answered": {"messages": [SYSTEM, *TURN, {"role": "assistant", "content": "21.5 °C."},
                                   user("Thanks")], "tools": [WEATHER]},
    "call-open": {"messages": TURN[:2], "tools": [WEATHER], "add_generation_prompt": False},
    "call-with-text": {"messages": [user("Weather?"),
                                    call("get_weather", {"city": "Ulm", "unit": "celsius"}, 1,
                                         "I look."), result("rain")], "tools": [WEATHER]},
    "call-strings": {"messages": [user("Weather?"), call("get_weather", '{"city": "Ulm"}'),
                                  result("rain")], "tools": [WEATHER]},
    "call-null": {"messages": [user("Time?"), call("now", {}, 1, None),
                               result("12:00", 1, "now")], "tools": [NOTHING]},
    "parallel": {"messages": [user("Both?"), PARALLEL, result("sun <b>&amp;</b>"),
                              result("done", 2, "set_alarm"),
                              {"role": "assistant", "content": "Sun, and it is set."},
                              user("Good")], "tools": [WEATHER, ALARM]},
    "chain": {"messages": [*TURN, call("set_alarm", {"time": "06:00", "days": []}, 2),
                           result("ok", 2, "set_alarm")], "tools": [WEATHER, ALARM]},
    "thought": {"messages": [user("2 + 2?"), THOUGHT, user("And 3 + 3?")]},
    "thought-last": {"messages": [user("2 + 2?"), THOUGHT], "add_generation_prompt": False},
    "thought-inline": {"messages": [user("2 + 2?"), INLINE, user("And 3 + 3?")]},
    "thought-call": {"messages": [user("Weather?"),
                                  {**call("get_weather", {"city": "Ulm"}),
                                   "reasoning_content": "I should look.",
                                   "thinking": "I should look.", "reasoning": "I should look."},
                                  result("rain")], "tools": [WEATHER]},
    "thinking-on": {"messages": [SYSTEM, HELLO], "enable_thinking": True, "thinking": True},
    "thinking-off": {"messages": [SYSTEM, HELLO], "enable_thinking": False, "thinking": False},
    "effort": {"messages": [HELLO], "reasoning_effort": "high", "tools": [WEATHER]},
    "documents": {"messages": [HELLO], "documents": [{"title": "A", "text": "Alpha\nand"},
                                                     {"title": "B", "text": "Beta"}]},
    "parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": "What is this?"},
                                                        {"type": "text", "text": "And that?"}]}]},
    "none": {"messages": [SYSTEM, HELLO], "tools": None, "documents": None},
    "date": {"messages": [HELLO], "date_string": "01 Feb 2025"},
}


class Generation(Extension):
    """The statement of transformers that marks what a model is trained to say."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_run", []), [], [], body).set_lineno(line)

    def _run(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def make_environment():
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                extensions=[Generation, loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = NOW.strftime
    return environment


def render(environment, source, variables):
    """None where it fails."""
    try:
        text = environment.from_string(source).render(**variables)
        return None if " object at 0x" in text else text
    except Exception:  # pylint: disable=broad-except
        return None


def complete(conversation):
    return {"add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>", **conversation}


def main():
    environment = make_environment()
    templates = {}
    for path in sorted(HERE.glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        templates[path.stem] = {name: render(environment, source, complete(conversation))
                                for name, conversation in CONVERSATIONS.items()}
    snippets = []
    for source in (HERE.parent / "snippets.txt").read_text(encoding="utf-8").split("\n====\n"):
        variables = complete({**CONVERSATIONS["parallel"], "data": {
            "text": "a <b> & 'c' \"d\" <|im_end|>", "list": [3, 1, 2],
            "words": ["b", "A", "c", "a"],
            "people": [{"name": "Bo", "age": 3, "on": True}, {"name": "al", "age": 30, "on": False},
                       {"name": "Cy", "age": 3}],
            "float": 2.5, "int": 7, "none": None, "yes": True, "empty": {}, "ü": "Straße",
            "lines": "one\ntwo\n\nfour\n",
            "nested": {"b": {"x": [1, {"y": 2}]}, "A": 1, "c": 0.1}}})
        snippets.append({"source": source, "text": render(environment, source, variables),
                         "variables": "data"})
    out = {"conversations": {name: complete(c) for name, c in CONVERSATIONS.items()},
           "templates": templates,
           "data": variables, "snippets": snippets}
    (HERE / "oracle.json").write_text(json.dumps(out, ensure_ascii=False, indent=0) + "\n",
                                      encoding="utf-8")


if __name__ == "__main__":
    main()
