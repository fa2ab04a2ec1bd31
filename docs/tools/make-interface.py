#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Makes the pages of the D-Bus interface.

    make-interface.py interface XML ERRORS.H OUTPUT
    make-interface.py options XML OPTIONS.JSON OUTPUT
    make-interface.py statistics XML STATISTICS.JSON OUTPUT

The first is made from the interface's XML and the comments in it, with the errors from
the header of the error domain; the others from what “llmsvc-tool options --json” and
“llmsvc-tool statistics --json” print.
"""

import json
import re
import sys
import xml.etree.ElementTree as ElementTree

import pages

CHANGES = {
    "true": "changes are announced with the new value",
    "invalidates": "changes are announced without the new value",
    "const": "never changes",
    "false": "changes are not announced",
}
EMITS = "org.freedesktop.DBus.Property.EmitsChangedSignal"
# The codes from here on are the client library's own and never cross the bus.
FIRST_OF_CLIENT = "NOT_AVAILABLE"
CLOSING = """\
## Errors

Each has a message that says what is wrong and what to do. The name on the bus has
`org.llm.Service.Error.` before it.

"""


class Comment:
    """The comment before a node: arguments by name, and the text after them."""

    def __init__(self, text):
        paragraphs = re.split(r"\n\s*\n", text.strip())
        head, _, rest = paragraphs[0].partition(":")
        self.name = head.strip()
        self.about, self.arguments = "", {}
        for line in rest.strip().splitlines():
            line = line.strip()
            if match := re.match(r"@(\w+):\s*(.*)", line):
                argument, line = match.groups()
                self.arguments[argument] = line
            elif self.arguments:
                self.arguments[argument] += " " + line
            else:
                self.about += " " + line
        self.paragraphs = [self.about.strip()] if self.about.strip() else []
        self.paragraphs += [" ".join(p.split()) for p in paragraphs[1:]]


def polish(text):
    """References of the comments as Markdown."""
    text = re.sub(r"#(org\.llm\.[A-Za-z.]+[A-Za-z])(\(\))?", r"`\1\2`", text)
    text = re.sub(r"(?<![`\w.])((?:org\.llm\.[A-Za-z.]+\.)?[A-Z][A-Za-z]+\(\))", r"`\1`", text)
    return re.sub(r"(?<![`\w])@([A-Za-z_]+)", r"`\1`", text)


def read_nodes(path):
    """Returns the interfaces, each node with its Comment as `comment`."""
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    root = ElementTree.parse(path, parser).getroot()
    comments = {}
    for parent in root.iter():
        comment = None
        for node in parent:
            if node.tag is ElementTree.Comment:
                comment = Comment(node.text)
            elif node.tag in ("interface", "method", "property", "signal"):
                name = node.get("name")
                if comment is None or comment.name != name:
                    sys.exit(f"make-interface: {name} has no comment of its own before it")
                comments[node] = comment
                comment = None
    return root.findall("interface"), comments


def list_arguments(node, comment, faults):
    lines = []
    names = {argument.get("name") for argument in node.findall("arg")}
    for name in comment.arguments.keys() - names:
        faults.append(f"{node.get('name')}: the comment names “{name}”, which is no argument")
    for argument in node.findall("arg"):
        name, kind = argument.get("name"), argument.get("type")
        text = comment.arguments.get(name)
        if text is None:
            if name != "options":
                faults.append(f"{node.get('name')}: nothing is said about “{name}”")
            text = "None yet."
        lines.append(f"- `{name}` ({kind}): {polish(text)}")
    return lines


def make_signature(node):
    groups = {"in": [], "out": []}
    for argument in node.findall("arg"):
        direction = "out" if node.tag == "signal" else argument.get("direction", "in")
        groups[direction].append(f"{argument.get('name')}: {argument.get('type')}")
    if node.tag == "signal":
        return f"{node.get('name')} ({', '.join(groups['out'])})"
    result = f" → {', '.join(groups['out'])}" if groups["out"] else ""
    return f"{node.get('name')} ({', '.join(groups['in'])}){result}"


def make_properties(interface, comments):
    lines = []
    for node in interface.findall("property"):
        notes = {a.get("name"): a.get("value") for a in node.findall("annotation")}
        text = " ".join(comments[node].paragraphs)
        access = {"read": "read only", "readwrite": "read and write", "write": "write only"}
        lines.append(f"- `{node.get('name')}` ({node.get('type')}, {access[node.get('access')]}, "
                     f"{CHANGES[notes.get(EMITS, 'true')]}): {polish(text)}")
    return ["### Properties", ""] + lines + [""] if lines else []


def read_errors(errors_h):
    """Returns [(CODE, text)] of those that the service sends."""
    found = re.findall(r"^ \* @LLMSVC_ERROR_([A-Z_]+): (.+(?:\n \*   .+)*)", pages.read(errors_h),
                       re.M)
    names = [name for name, _ in found]
    if FIRST_OF_CLIENT not in names:
        sys.exit(f"make-interface: there is no code {FIRST_OF_CLIENT}")
    return [(name, text.replace("\n *  ", ""))
            for name, text in found[:names.index(FIRST_OF_CLIENT)]]


def make_interface(xml, errors_h):
    interfaces, comments = read_nodes(xml)
    faults = []
    out = ["# org.llm.Service(5): the interface of the language model service on D-Bus", ""]
    for interface in interfaces:
        comment = comments[interface]
        summary = comment.arguments.get("short_description")
        if summary is None:
            faults.append(f"{interface.get('name')} has no @short_description")
        out += [f"## {interface.get('name')}", "", f"{summary}.", ""]
        for paragraph in comment.paragraphs:
            out += [polish(paragraph), ""]
        out += make_properties(interface, comments)
        for node in interface.findall("method") + interface.findall("signal"):
            out += [f"### {node.get('name')}", "", f"    {make_signature(node)}", ""]
            for paragraph in comments[node].paragraphs:
                out += [polish(paragraph), ""]
            arguments = list_arguments(node, comments[node], faults)
            out += arguments + [""] if arguments else []

    errors = read_errors(errors_h)
    if not interfaces or not errors:
        faults.append("there are no interfaces or no errors")
    out += CLOSING.splitlines() + [""]
    for name, text in errors:
        camel = "".join(part.capitalize() for part in name.split("_"))
        out.append(f"- `{camel}`: {text[0].upper()}{text[1:]}.")
    if faults:
        sys.exit("\n".join(f"make-interface: {fault}" for fault in faults))
    return "\n".join(out) + "\n"


def make_options(xml, options_json):
    interfaces, _ = read_nodes(xml)
    methods = {node.get("name") for i in interfaces for node in i.findall("method")}
    out = ["# Options", "",
           "Every option of every call, by its key in the vardict `options`, with its type on the "
           "bus; any number type is taken where the value fits. An option with a feature needs "
           "that name in the property `Features`, or some of its values do.", ""]
    for option in json.loads(pages.read(options_json))["options"]:
        for method in set(option["methods"]) - methods:
            sys.exit(f"make-interface: “{option['key']}”: there is no method {method}")
        limits = [option["range"]] if "range" in option else []
        if "max-entries" in option:
            limits.insert(0, f"at most {option['max-entries']} entries")
        text = option["summary"]
        if limits:
            text += f" Takes {', each '.join(limits)}."
        if "feature" in option:
            text += f" Feature: `{option['feature']}`."
        if option["since"] > 1:
            text += f" Since `ApiVersion` {option['since']}."
        out.append(f"- `{option['key']}` ({option['type']}): {text} "
                   f"For {', '.join(f'`{m}`' for m in option['methods'])}.")
    return "\n".join(out) + "\n"


def make_statistics(_xml, statistics_json):
    out = ["# Statistics", "",
           "Every figure of `GetStatistics`, by its key: a counter since the service started, or a "
           "gauge as of now. `llmctl stats` shows them, and `llmctl metrics` has them for monitoring.", ""]
    for figure in json.loads(pages.read(statistics_json))["statistics"]:
        kind = figure["kind"]
        if figure["unit"] != "number":
            kind += ", " + figure["unit"]
        out.append(f"- `{figure['key']}` ({kind}): {figure['help']}")
    return "\n".join(out) + "\n"


def main():
    makers = {"interface": make_interface, "options": make_options,
              "statistics": make_statistics}
    if len(sys.argv) != 5 or sys.argv[1] not in makers:
        sys.exit(__doc__)
    pages.write(sys.argv[4], makers[sys.argv[1]](sys.argv[2], sys.argv[3]))


if __name__ == "__main__":
    main()
