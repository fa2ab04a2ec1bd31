# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tasks that a call of a tool answers: prompts in ChatML as messages, and whether an answer is right."""
import json
import re

MESSAGE = re.compile(r"<\|im_start\|>(\w+)\n(.*?)(?:<\|im_end\|>\n?|$)", re.DOTALL)
CALL = re.compile(r"\s*<tool_call>\s*(.*?)\s*(?:</tool_call>|$)", re.DOTALL)


class CaseError(Exception):
    pass


def read_call(text):
    """(name, arguments), or None where the text is no call."""
    found = CALL.match(text)
    try:
        call = json.loads(found[1]) if found else None
    except ValueError:
        return None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return None
    return call["name"], call.get("arguments", {})


class Case:
    """messages: (role, text) before the question. question: of the user, the last message."""

    def __init__(self, line):
        task = json.loads(line)
        *parts, opened = MESSAGE.findall(task["prompt"])
        if not parts or parts[-1][0] != "user" or opened != ("assistant", ""):
            raise CaseError("a prompt that does not end with a question")
        self.messages, self.question = parts[:-1], parts[-1][1]
        self.wanted = read_call(task["answer"])
        if self.wanted is None:
            raise CaseError("an answer that is no call of a tool")

    def score(self, text):
        """Whether the function is right, and whether its arguments are, too."""
        found = read_call(text)
        return {"right": found is not None and found[0] == self.wanted[0],
                "exact": found == self.wanted}


def read_cases(path, n_most):
    """(the cases, how many lines were none): those that end with something else than a question."""
    cases, n_others = [], 0
    with open(path, encoding="utf-8") as file:
        for line in file:
            try:
                cases.append(Case(line))
            except CaseError:
                n_others += 1
            except (ValueError, KeyError) as error:
                raise CaseError(f"{path}: that is no file of tasks: {error}") from None
            if len(cases) == n_most:
                break
    return cases, n_others
