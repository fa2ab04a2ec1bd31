#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Tool calls of a model beside a reference: how many are valid and right.

    measure.py LLMSVC-TOOL MODEL TASKS CHOICE [N]

TASKS has a JSON object a line: `prompt`, ChatML up to the answer, whose system text lists functions
as `Name(argument, optional?)`, and `answer`, the right call. CHOICE is `free`, without tools, or a
`tool-choice`. N: the first so many, 100 by default. Arguments are strings, declared in the order of
the alphabet, as the demo models write them.
"""

import json
import re
import subprocess
import sys


def read_tools(prompt):
    tools = {}
    system = prompt.split("<|im_end|>")[0]
    for name, listed in re.findall(r"^([A-Za-z]\w*)\((.*?)\)$", system, re.M):
        keys = [key.strip() for key in listed.split(",") if key.strip()]
        names = sorted(key.rstrip("?") for key in keys)
        tools.setdefault(name, {"type": "function", "function": {"name": name, "parameters": {
            "type": "object", "properties": {key: {"type": "string"} for key in names},
            "required": [key for key in names if key in keys]}}})
    return list(tools.values())


def read_call(result):
    """(name, arguments) of the first call, None without, ValueError where it is no JSON."""
    if "tool-calls" in result:
        function = json.loads(result["tool-calls"])[0]["function"]
        return function["name"], json.loads(function["arguments"])
    found = re.search(r"<tool_call>(.*?)</tool_call>", result["text"], re.S)
    if found is None:
        return None
    call = json.loads(found.group(1))
    return call.get("name"), call.get("arguments")


def main():
    tool, model, tasks, choice = sys.argv[1:5]
    limit = int(sys.argv[5]) if len(sys.argv) > 5 else 100
    counts = dict.fromkeys(("cases", "calls", "valid JSON", "known function", "right function",
                            "exact", "arguments", "right arguments"), 0)
    with open(tasks, encoding="utf-8") as lines:
        for line, _ in zip(lines, range(limit)):
            task = json.loads(line)
            tools = read_tools(task["prompt"])
            command = [tool, "generate", "--model", model, "--raw", "--exact", "--temperature", "0",
                       "--max-tokens", "128", "--threads", "1", "--json", "-"]
            if choice != "free":
                command += ["--option", "tools=" + json.dumps(tools), "--option",
                            f"tool-choice='{choice}'", "--option", "parallel-tools=false"]
            done = subprocess.run(command, input=task["prompt"], capture_output=True, text=True,
                                  check=True)
            right = json.loads(re.search(r"<tool_call>(.*)</tool_call>", task["answer"], re.S)[1])
            counts["cases"] += 1
            try:
                call = read_call(json.loads(done.stdout))
            except ValueError:
                counts["calls"] += 1
                continue
            if call is None:
                continue
            counts["calls"] += 1
            counts["valid JSON"] += 1
            counts["known function"] += call[0] in {one["function"]["name"] for one in tools}
            if call[0] != right["name"]:
                continue
            counts["right function"] += 1
            counts["exact"] += call[1] == right["arguments"]
            counts["arguments"] += len(right["arguments"])
            counts["right arguments"] += sum(
                call[1].get(key) == value for key, value in right["arguments"].items())
    for name, count in counts.items():
        print(f"{name}: {count}")


if __name__ == "__main__":
    main()
