# SPDX-License-Identifier: LGPL-2.1-or-later
"""What calls of sub-models take as a part of what the whole model takes, beside what was forecast:
the same prompt several times by each, in turns, so that what else the machine does meets both; the
parts are of their medians. Forecasts are those that the service made before the calls, and count
once it has learned from the first rounds, as long as the machine had nothing else to do. And what calls with a part of the time as their target
came to."""
import contextlib
import os
import pathlib
import tempfile

from lib import bus, figures, process

WORDS = ("table", "river", "seven", "blue", "station", "evening", "garden", "letter", "window", "bread")
PARTS = (0.5, 0.6, 0.7, 0.8, 0.9)


class Service:
    """Calls without a context: nothing of a prompt is known from the call before."""

    def __init__(self, private, options):
        self.connection = bus.Connection(private.address)
        self.options = options
        self.random = figures.Random(options.seed)

    def make_prompt(self, n_words):
        return " ".join(self.random.choose(WORDS) for _ in range(n_words))

    def ask(self, prompt, **more):
        return self.connection.call(bus.SERVICE, "Complete", "(sa{sv})", prompt, bus.greedy(
            self.options.tokens, **{"least-sub-model": bus.option("u", 20)} | more))[1]

    def ask_of(self, prompt, percent):
        return self.connection.call(bus.SERVICE, "Complete", "(sa{sv})", prompt, bus.greedy(
            self.options.tokens, **{"sub-model": bus.option("u", percent)}))[1]


def find_part(pairs, key):
    """The level's over the whole model's, of medians; None where one has none."""
    level, whole = (figures.median([results.get(key, 0) for results in side])
                    for side in zip(*pairs))
    return level / whole if level > 0 and whole > 0 else None


def ask_in_turns(service, prompt, percent, repeats):
    """Pairs of results: of the level and of the whole model."""
    pairs = []
    for turn in range(repeats):
        both = {wanted: service.ask_of(prompt, wanted)
                for wanted in ((percent, 100) if turn % 2 else (100, percent))}
        pairs.append((both[percent], both[100]))
    return pairs


def measure_parts(service, levels, options):
    found = {}
    for turn in range(options.warm_up + options.runs):
        prompt = service.make_prompt(service.random.range(options.least, options.most))
        for percent in levels:
            pairs = ask_in_turns(service, prompt, percent, options.repeats)
            for token, key in (("first", "ttft"), ("further", "tpot")):
                parts = find_part(pairs, key + "-forecast-ms"), find_part(pairs, key + "-ms")
                if turn >= options.warm_up and None not in parts:
                    found.setdefault((percent, token), []).append(parts)
    return found


def measure_targets(service, options):
    """By part: levels that answered, and calls that met it."""
    found = {}
    for turn in range(options.runs):
        prompt = service.make_prompt(service.random.range(options.least, options.most))
        whole = service.ask_of(prompt, 100)
        for part in PARTS:
            results = service.ask(prompt, **{"ttft-share": bus.option("d", part)})
            found.setdefault(part, []).append((results["sub-model"],
                                               results["ttft-ms"] / whole["ttft-ms"]))
    return found


def describe(pairs):
    errors = sorted(abs(forecast / measured - 1) for forecast, measured in pairs)
    median = figures.median([measured for _, measured in pairs])
    # the error of a forecast that knew what would be measured, but for its spread
    spread = sorted(abs(median / measured - 1) for _, measured in pairs)
    return {"forecast": figures.median([forecast for forecast, _ in pairs]), "measured": median,
            "error-p50": figures.percentile(errors, 0.5), "error-p90": figures.percentile(errors, 0.9),
            "spread-p90": figures.percentile(spread, 0.9), "n": len(errors)}


def print_tables(parts, targets):
    print("| level | token | forecast | measured | error, median | error, p90 | their median's, p90 | n |")
    print("|---|---|---|---|---|---|---|---|")
    for (percent, token), one in parts.items():
        print(f"| {percent} % | {token} | {one['forecast']:.3f} | {one['measured']:.3f} | "
              f"{one['error-p50']:.1%} | {one['error-p90']:.1%} | "
              f"{one['spread-p90']:.1%} | {one['n']} |")
    print("\n| ttft-share | levels that answered | measured part, median | met |\n|---|---|---|---|")
    for part, found in targets.items():
        levels = ", ".join(f"{level} % ({sum(l == level for l, _ in found)})"
                           for level in sorted({level for level, _ in found}))
        met = sum(measured <= part for _, measured in found)
        print(f"| {part} | {levels} | {figures.median([m for _, m in found]):.3f} | "
              f"{met} of {len(found)} |")


def main(arguments):
    parser = figures.Options("levels", __doc__)
    parser.add("daemon", meta="FILE", help="The llmsvcd to measure")
    parser.add("model", meta="FILE", help="The GGUF file, with its companion beside it")
    parser.add("level", int, None, help="A level; may be given several times (all of the model's)",
               action="append")
    parser.add("runs", int, 20, help="Pairs of each level (20)")
    parser.add("repeats", int, 5, help="Calls of each side of a pair (5)")
    parser.add("warm-up", int, 2, help="Pairs before that (2)")
    parser.add("tokens", int, 16, help="Tokens of an answer (16)")
    parser.add("least", int, 40, help="Words of the shortest prompt (40)")
    parser.add("most", int, 200, help="Words of the longest one (200)")
    parser.add("seed", int, 1, help="Other prompts (1)")
    parser.add_flag("json", "One JSON object")
    options = parser.parse_args(arguments)
    if options.daemon is None or options.model is None or options.runs < 1 or options.tokens < 2:
        parser.error("--daemon FILE and --model FILE are needed")
    with tempfile.TemporaryDirectory(prefix="llmsvc-bench-") as cache, contextlib.closing(
            bus.PrivateBus(options.daemon, options.model, cache=pathlib.Path(cache))) as private:
        service = Service(private, options)
        known = service.connection.find_levels()
        if not known:
            parser.error(f"{options.model} has no sub-models: there is no companion beside it")
        levels = options.level or known
        load = process.OtherLoad(private.find_daemon())
        parts = {key: describe(pairs)
                 for key, pairs in measure_parts(service, levels, options).items()}
        targets = measure_targets(service, options)
        others = load.get()
    if options.json:
        figures.print_json({
            "others": others,
            "parts": [{"level": percent, "token": token} | one
                      for (percent, token), one in parts.items()],
            "targets": {str(part): found for part, found in targets.items()}})
    else:
        print_tables(parts, targets)
        print(f"\nother programs took {others:.2f} of {os.cpu_count()} processors meanwhile")
    return 0
