# SPDX-License-Identifier: LGPL-2.1-or-later
"""Prompts of tasks through the service, computed exactly and in W8A8 in turns: the time to the first
token, and the answers.

A prompt is as many tasks with their answers as it takes to have --least tokens, and one more, which is
answered. docs/prefill.md tells more.
"""
import contextlib
import json
import tempfile
import time

from lib import bus
from lib.figures import Figures, Options, fail, print_json

WAYS = ("exact", "w8a8")
CALL = "<tool_call>"
PREPARE_S = 600
END = "<|im_end|>\n"


def read_tasks(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


class Prompts:
    """Prompts of --least to --most tokens, one behind the other; right: the answer of the last task."""

    def __init__(self, tasks, count, least, most):
        self.tasks, self.count, self.least, self.most = tasks, count, least, most
        self.at = 0

    def next(self):
        text = ""
        while self.at < len(self.tasks):
            task = self.tasks[self.at]
            self.at += 1
            n_tokens = self.count(text + task["prompt"])
            if n_tokens > self.most:
                text = ""
            elif n_tokens >= self.least:
                return text + task["prompt"], task["answer"]
            else:
                text += task["prompt"] + task["answer"] + END
        return None


def read_call(text):
    """(name, arguments); None where it is no call."""
    try:
        call = json.loads(text.partition(CALL)[2].partition("</tool_call>")[0])
        return call["name"], call["arguments"]
    except (ValueError, KeyError, TypeError):
        return None


class Run:
    def __init__(self, options, connection):
        self.options, self.connection = options, connection
        self.figures = Figures()
        self.n_same = self.n_prompts = self.n_tasks = 0
        self.valid = dict.fromkeys(WAYS, 0)
        self.right = dict.fromkeys(WAYS, 0)

    def complete(self, prompt, way, n_tokens):
        options = bus.greedy(n_tokens, raw=bus.option("b", True), prefill=bus.option("s", way))
        return self.connection.call(bus.SERVICE, "Complete", "(sa{sv})", prompt, options)

    def count(self, prompt):
        return self.connection.call(bus.SERVICE, "CountTokens", "(a(ssa{sv})a{sv})",
                                    bus.message(prompt), {"raw": bus.option("b", True)})[0]

    def prepare(self):
        """Waits until the weights for W8A8 are there."""
        until = time.monotonic() + PREPARE_S
        begin = time.monotonic()
        while self.complete("x", "w8a8", 1)[1]["prefill"] != "w8a8":
            if time.monotonic() > until:
                raise bus.CallError("Timeout", "the weights for W8A8 are not prepared")
            time.sleep(0.05)
        self.figures.add("weights for W8A8, from the first call on", "s", time.monotonic() - begin)

    def measure(self, prompt, right):
        ways = WAYS if self.n_prompts % 2 == 0 else WAYS[::-1]
        texts, times = {}, {}
        for way in ways:
            texts[way], results = self.complete(prompt, way, self.options.tokens)
            if results["prefill"] != way or results["cached-tokens"] > 0:
                raise bus.CallError("Wrong", f"computed {results['prefill']}, {way} was asked for")
            times[way] = results["ttft-ms"]
            self.figures.add(f"first token, {way}", "ms", times[way])
            if CALL in right:
                call = read_call(texts[way])
                self.valid[way] += call is not None
                self.right[way] += call is not None and call == read_call(right)
        self.n_tasks += CALL in right
        self.figures.add("tokens of a prompt", "", results["prompt-tokens"])
        self.figures.add("exact / w8a8", "×", times["exact"] / times["w8a8"])
        self.n_same += texts["exact"] == texts["w8a8"]
        self.n_prompts += 1

    def print(self, as_json):
        counts = {"prompts": self.n_prompts, "same answer": self.n_same}
        if self.n_tasks > 0:
            counts["tasks that a call answers"] = self.n_tasks
            for way in WAYS:
                counts[f"valid calls, {way}"] = self.valid[way]
                counts[f"right calls, {way}"] = self.right[way]
        if as_json:
            print_json({"figures": self.figures.to_json(), "counts": counts})
            return
        self.figures.print(False)
        print()
        for name, count in counts.items():
            print(f"{name}: {count}")


def main(arguments):
    parser = Options("prompts", __doc__)
    parser.add("daemon", meta="FILE", help="The llmsvcd to measure")
    parser.add("model", meta="FILE", help="The GGUF file to answer with, calibrated")
    parser.add("tasks", meta="FILE", help="Lines of JSON with prompt and answer")
    parser.add("prompts", int, 20, help="Prompts (20)")
    parser.add("least", int, 600, help="Tokens of a prompt, at least (600)")
    parser.add("most", int, 1500, help="At most (1500)")
    parser.add("tokens", int, 48, help="Tokens of an answer (48)")
    parser.add("cache", meta="DIR", help="Where prepared weights are kept")
    parser.add_flag("json", "One JSON object")
    options = parser.parse_args(arguments)
    if options.daemon is None or options.model is None or options.tasks is None:
        parser.error("--daemon FILE, --model FILE and --tasks FILE are needed")
    if options.prompts < 1 or options.tokens < 1 or not 1 <= options.least <= options.most:
        parser.error("--prompts and --tokens are from 1 on, and --least no more than --most")
    with tempfile.TemporaryDirectory(prefix="llmsvc-bench-") as folder:
        with contextlib.closing(bus.PrivateBus(options.daemon, options.model,
                                               cache=options.cache or folder)) as private:
            run = Run(options, private.connection)
            try:
                prompts = Prompts(read_tasks(options.tasks), run.count, options.least, options.most)
                run.prepare()
                while run.n_prompts < options.prompts and (made := prompts.next()) is not None:
                    run.measure(*made)
            except (bus.CallError, OSError, ValueError, KeyError) as error:
                return fail(error)
    if run.n_prompts == 0:
        return fail(f"no prompt of the tasks has {options.least} to {options.most} tokens")
    run.print(options.json)
    return 0
