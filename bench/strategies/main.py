# SPDX-License-Identifier: LGPL-2.1-or-later
"""Which strategy answers best in time: sub-models, shorter prompts, both, models trained for their size,
layers left out, and what the service chooses by itself for a target.

All strategies answer the same tasks, in turns, greedily and with nothing of a prompt in memory. A time is
the service's from the call to its first token, with all that a strategy takes before it, and that of a
further token; the median of the rounds. A target is a part of the whole model's times for the same task,
and nothing is added to it: what is later counts as wrong, and so does a call that was refused. What is
compared is chosen on the first half of the tasks and judged on the second.
"""
import contextlib
import json
import pathlib
import random
import statistics
import sys
import tempfile

from lib import bus, figures
from modelfile.reader import GgufError
from strategies import dropped, report
from strategies.cases import CaseError, read_cases

PROMPTS = (90, 80, 70)
BOTH = ((80, 80), (60, 80), (40, 80), (20, 80))
SEED = 1


class Arm:
    """family: what it is compared as. target: of the service's own choice, a pair of parts."""

    def __init__(self, name, family, service, options, target=None):
        self.name, self.family, self.service, self.target = name, family, service, target
        self.options = options

    def answer(self, case, n_tokens):
        try:
            text, results = self.service.call(
                bus.SERVICE, "Complete", "(sa{sv})", case.question, bus.greedy(
                    n_tokens, messages=bus.option("a(ssa{sv})", [
                        (role, said, bus.NONE) for role, said in case.messages]), **self.options))
        except bus.CallError as error:
            return {"refused": error.name}
        return case.score(text) | {
            "ttft": results["ttft-ms"], "tpot": results["tpot-ms"], "level": results["sub-model"],
            "prompt": results["prompt-level"], "cached": results["cached-tokens"]}


def make_arms(service, options):
    def level(percent):
        return {"sub-model": bus.option("u", percent)}

    def prompt(percent):
        return {"prompt-level": bus.option("u", percent)}

    yield Arm("whole", "whole", service, {})
    levels = service.find_levels()[::-1]
    for percent in levels:
        yield Arm(f"level {percent}", "sub-model", service, level(percent))
    for percent in PROMPTS:
        yield Arm(f"prompt {percent}", "prompt", service, prompt(percent))
    for percent, share in ((percent, share) for percent, share in BOTH if percent in levels):
        yield Arm(f"level {percent}, prompt {share}", "both", service, level(percent) | prompt(share))
    for first, further in report.TARGETS[1:]:
        parts = {"ttft-share": bus.option("d", first), "tpot-share": bus.option("d", further)}
        yield Arm(f"chosen for {first:g}, {further:g}", "service", service, parts, (first, further))
        yield Arm(f"chosen for {first:g}, {further:g}, whatever it costs", "service, whatever it costs", service,
                  parts | {"least-quality": bus.option("u", 0)}, (first, further))


def start(stack, daemon, model):
    return stack.enter_context(contextlib.closing(bus.PrivateBus(daemon, model))).connection


def start_others(stack, options, folder):
    """Arms with a model file of their own."""
    for family, given in (("bare", options.bare), ("trained", options.trained)):
        for path in given or []:
            service = start(stack, options.daemon, path)
            if family == "trained":
                yield Arm(pathlib.Path(path).stem, "trained", service, {})
                continue
            for percent in service.find_levels()[::-1]:
                yield Arm(f"level {percent}, no adapter", "no adapter", service,
                          {"sub-model": bus.option("u", percent)})
    for without in options.drop or []:
        layers = [int(layer) for layer in without.split(",")]
        path = folder / f"without-{without}.gguf"
        dropped.write(path, options.model, layers)
        yield Arm(f"without layers {without}", "layers", start(stack, options.daemon, path), {})


def measure(arms, cases, options, file):
    """A line for each case: what each arm came to."""
    order = random.Random(SEED)
    for number, case in enumerate(cases):
        found = {arm.name: [] for arm in arms}
        for _ in range(options.rounds):
            for arm in order.sample(arms, len(arms)):
                found[arm.name].append(arm.answer(case, options.tokens))
        outcomes = {name: join(tries) for name, tries in found.items()}
        print(json.dumps({"case": number, "outcomes": outcomes}), file=file, flush=True)
        print(f"\r{number + 1} of {len(cases)} ", end="", file=sys.stderr)
    print(file=sys.stderr)


def join(tries):
    """Of the rounds: medians of times, and for a choice of the service what most of them were."""
    good = [one for one in tries if "refused" not in one]
    if not good:
        return tries[0]
    times = {key: statistics.median(one[key] for one in good) for key in ("ttft", "tpot")}
    votes = {key: sum(one[key] for one in good) * 2 > len(tries) for key in ("right", "exact")}
    return good[0] | times | votes


def main(arguments):
    parser = figures.Options("strategies", __doc__)
    parser.add("daemon", meta="FILE", help="The llmsvcd to measure")
    parser.add("model", meta="FILE", help="The GGUF file, with its companion beside it")
    parser.add("tasks", meta="FILE", help="Tasks that calls of tools answer, in ChatML")
    parser.add("bare", meta="FILE", action="append", help="The same, its companion without adapters")
    parser.add("trained", meta="FILE", action="append", help="A model trained for its size; several times")
    parser.add("drop", meta="N,…", action="append", help="Layers to leave out; several times")
    parser.add("cases", int, 500, help="Tasks at most (500)")
    parser.add("rounds", int, 3, help="Answers of each to each (3)")
    parser.add("tokens", int, 64, help="Tokens of an answer (64)")
    parser.add("outcomes", meta="FILE", help="Write a line of JSON for each task there")
    parser.add("read", meta="FILE", help="Print what such a file says, and measure nothing")
    parser.add_flag("json", "One JSON object")
    options = parser.parse_args(arguments)
    try:
        if options.read:
            with open(options.read, encoding="utf-8") as file:
                lines = list(map(json.loads, file))
            families = lines.pop(0)
        else:
            if not (options.daemon and options.model and options.tasks):
                parser.error("--daemon FILE, --model FILE and --tasks FILE are needed")
            families, lines = measure_all(options)
        found = report.judge(families, [line["outcomes"] for line in lines])
    except (CaseError, GgufError, OSError, ValueError, bus.CallError) as error:
        return figures.fail(error)
    if options.json:
        figures.print_json(found)
    else:
        report.print_all(found)
    return 0


def measure_all(options):
    cases, n_others = read_cases(options.tasks, options.cases)
    if n_others:
        print(f"llmsvc-bench: {n_others} tasks do not end with a question; left out", file=sys.stderr)
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="llmsvc-bench-")))
        arms = list(make_arms(start(stack, options.daemon, options.model), options))
        arms += start_others(stack, options, folder)
        for arm in arms:
            arm.answer(cases[0], options.tokens)
        families = {arm.name: [arm.family, arm.target] for arm in arms}
        path = options.outcomes or folder / "outcomes.jsonl"
        with open(path, "w", encoding="utf-8") as file:
            print(json.dumps(families), file=file)
            measure(arms, cases, options, file)
        with open(path, encoding="utf-8") as file:
            return families, list(map(json.loads, file))[1:]
