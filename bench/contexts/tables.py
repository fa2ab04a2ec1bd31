# SPDX-License-Identifier: LGPL-2.1-or-later
"""The parts of the benchmark: what each asks for, and its tables in Markdown."""
import itertools
import math

from lib import figures

from . import grid
from .grid import PATTERNS

MIB = 1 << 20
# Numbers of contexts that are tried, in this order, until the mean latency exceeds all limits (ms).
COUNTS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64)
LIMITS = (10, 25)
# Budgets, of the bytes of 16 contexts with 8 bits.
SHARES = (0.25, 0.5, 0.75)
# Of section 5.1 of the paper, by limit: contexts of LLMS with 1, 2 and 3 GB, and how many times
# those of its baselines.
PAPER_BUDGETS = dict(zip(SHARES, ("1 GB", "2 GB", "3 GB")))
PAPER = {10: dict(zip(SHARES, ((4.32, 1.99), (10.72, 2.48), (16.32, 2.85)))),
         25: dict(zip(SHARES, ((9.28, 4.16), (19.34, 3.62), (27.38, 3.57))))}
# What is left out, one at a time, and the policy that lacks it.
ABLATIONS = (("nothing", "llms"), ("the order of eviction (LRU)", "lru"),
             ("writing ahead", "llms-no-ahead"), ("bits by density (all have 8)",
                                                  "llms-no-compression"),
             ("overlap and recompute", "llms-no-pipeline"))
# Title, label, what changes and its values.
SWEEPS = (
    ("Sweep of the tokens in a chunk", "tokens in a chunk", "chunk", (16, 32, 48, 64)),
    ("Sweep of the longest context", "tokens at most", "longest", (512, 1024, 2048, 4096)),
    ("Sweep of the rate, the same calls in less time", "seconds between calls", "interval",
     (300, 60, 15, 5, 2, 1)),
)


def geometric_mean(values):
    """0 without values."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else 0


def mean(values):
    return sum(values) / len(values) if values else 0


def spread(values, form=".3g"):
    """The mean of some seeds, and their range."""
    if not values:
        return "–"
    if len(values) == 1:
        return format(values[0], form)
    least, most = format(min(values), form), format(max(values), form)
    return f"{format(mean(values), form)} ({least} to {most})"


def waits_for_nothing(cell):
    """All was there whenever a context was called: what is left is the begin of a call, which all
    policies have alike, and a ratio to it says nothing."""
    return cell["resident-share"] == 1 and cell["written-bytes"] == 0


class Comparison:
    """Cells of two policies, pair by pair."""

    def __init__(self, pairs):
        pairs = [pair for pair in pairs if pair[0]["switches"] > 0]
        # Where only the other one waits for nothing, the first one has lost: that counts.
        busy = [pair for pair in pairs if not waits_for_nothing(pair[0])]
        self.n_busy = len(busy)
        self.n_both_idle = sum(waits_for_nothing(first) and waits_for_nothing(other)
                               for first, other in pairs)
        self.n_first_idle = len(pairs) - self.n_busy - self.n_both_idle
        self.ratios = self.compare(busy, "wait")
        self.geometric_mean = geometric_mean(self.ratios)
        self.overlapped = geometric_mean(self.compare(busy, "if-overlapped"))
        self.without_prompt = geometric_mean(self.compare(busy, "without-prompt"))
        first, other = (sum(pair[i]["wait"]["mean-ms"] for pair in pairs) for i in (0, 1))
        self.ratio_of_means = other / first if first > 0 else 0

    @staticmethod
    def compare(pairs, name):
        return [other[name]["mean-ms"] / first[name]["mean-ms"] for first, other in pairs]


class Parts:
    def __init__(self, options, names, cells, shapes):
        self.options, self.names, self.grid = options, names, cells
        self.shapes = shapes
        self.devices, self.policies = (list(names[key]) for key in ("devices", "policies"))
        self.seeds = options.seeds
        self.patterns = PATTERNS[:1] if options.quick else PATTERNS
        self.contexts = (2, 8, 16) if options.quick else (2, 4, 6, 8, 12, 16)
        self.shares = (0.5,) if options.quick else SHARES
        self.counts = tuple(n for n in COUNTS if n <= 16) if options.quick else COUNTS
        self.json = {"seeds": options.seeds, "hours": options.hours}

    def print(self, *line, **more):
        if not self.options.json:
            print(*line, **more)

    def title(self, shape):
        return self.names["shapes"][shape][0]

    def print_begin(self, doubtful):
        """@doubtful: rates that are out of line."""
        seeds = ", ".join(map(str, self.seeds))
        self.print(f"# Tables of `llmsvc-bench contexts`\n\nSeed{'s' * (len(self.seeds) > 1)} "
                   f"{seeds}. Of several seeds: mean (least to greatest). Devices:\n")
        for device, what in self.names["devices"].items():
            self.print(f"- {device}: {what}")
        for what in doubtful:
            self.print(f"\n**The rates are out of line, and were measured on a disturbed machine: "
                       f"{what}.**")

    def print_head(self, *columns):
        self.print(f"\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")

    # --- in virtual time ---

    def run_grid(self):
        axes = (self.devices, self.patterns, self.shares, self.contexts, self.policies, self.seeds)
        self.grid.run([self.grid.point(shape, *rest) for shape in self.shapes
                       for rest in itertools.product(*axes)])
        self.json["comparisons"] = []
        for shape in self.shapes:
            if len(self.policies) > 1:
                self.print(f"\n## {self.title(shape)}: latency of others divided by that of "
                           f"{self.policies[0]}\n\nAll patterns, budgets and numbers of contexts. "
                           f"Geometric means, least and best are of the cells in which "
                           f"{self.policies[0]} waits for something; beside them, in how many "
                           "others only it waits for nothing, and in how many both.")
                self.print_head("device", "policy", "geometric mean", "least", "best",
                                "ratio of means", "if all overlapped", "without a prompt",
                                "cells", "only it idle", "both idle")
            for device, policy in itertools.product(self.devices, self.policies[1:]):
                self.print_comparison(shape, device, policy)
        for shape, device in itertools.product(self.shapes, self.devices):
            self.print_latencies(shape, device)

    def get_pairs(self, shape, device, policy, seed):
        for rest in itertools.product(self.patterns, self.shares, self.contexts):
            yield tuple(self.grid.cells[self.grid.point(shape, device, *rest, name, seed)]
                        for name in (self.policies[0], policy))

    def print_comparison(self, shape, device, policy):
        seeds = [Comparison(self.get_pairs(shape, device, policy, seed)) for seed in self.seeds]
        busy = [one for one in seeds if one.n_busy > 0]
        ratios = [ratio for one in busy for ratio in one.ratios]
        least, best = ([min(ratios)], [max(ratios)]) if ratios else ([], [])
        result = {name: [getattr(one, name) for one in busy]
                  for name in ("geometric_mean", "ratio_of_means", "overlapped", "without_prompt")}
        counts = [sum(getattr(one, name) for one in seeds)
                  for name in ("n_busy", "n_first_idle", "n_both_idle")]
        self.print(f"| {device} | {policy} | {spread(result['geometric_mean'])} | "
                   f"{spread(least)} | {spread(best)} | {spread(result['ratio_of_means'])} | "
                   f"{spread(result['overlapped'])} | {spread(result['without_prompt'])} |",
                   " ".join(f"{count} |" for count in counts))
        self.json["comparisons"].append(
            {"shape": shape, "device": device, "policy": policy, "ratios": ratios,
             "busy-cells": counts[0], "only-first-idle-cells": counts[1],
             "both-idle-cells": counts[2],
             **{name.replace("_", "-"): values for name, values in result.items()}})

    def print_latencies(self, shape, device):
        """All patterns and seeds together."""
        self.print(f"\n## {self.title(shape)}, {device}: switching latency in ms, mean (p50 / p95 "
                   "/ p99), all patterns")
        self.print_head("budget", "contexts", *self.policies)
        for share, n in itertools.product(self.shares, self.contexts):
            row = f"| {100 * share:.0f} % | {n} |"
            for policy in self.policies:
                us = figures.latency(self.pool(self.grid.point(shape, device, pattern, share, n,
                                                               policy, seed)
                                               for pattern in self.patterns
                                               for seed in self.seeds))
                first, *shares = (f"{us[key] / 1000:.3g}" for key in ("mean", "p50", "p95", "p99"))
                row += f" {first} ({' / '.join(shares)}) |"
            self.print(row)

    def pool(self, points):
        return [wait for point in points for wait in self.grid.cells[point]["waits"]]

    def run_capacity(self):
        """Many replays: of the largest model alone. Once above a limit, a lucky trace of more
        contexts does not count."""
        shape = self.shapes[-1]
        lines = list(itertools.product(self.devices, self.patterns, self.shares, self.policies,
                                       self.seeds))
        # One context needs no switch.
        most = {line: dict.fromkeys(LIMITS, 1) for line in lines}
        open_limits = {line: set(LIMITS) for line in lines}
        for n in self.counts:
            points = {line: self.grid.point(shape, *line[:3], n, *line[3:])
                      for line in lines if open_limits[line]}
            self.grid.run(points.values())
            for line, point in points.items():
                for limit in list(open_limits[line]):
                    if self.grid.cells[point]["wait"]["mean-ms"] < limit:
                        most[line][limit] = n
                    else:
                        open_limits[line].remove(limit)
        self.print_paper(shape, most)
        for limit in LIMITS:
            self.print_capacity(shape, most, limit)
        self.json["capacity"] = [
            {"shape": shape, "device": device, "policy": policy, "pattern": pattern, "seed": seed,
             "budget-share": share,
             **{f"contexts-under-{limit}-ms": count for limit, count in most[line].items()}}
            for line in lines for device, pattern, share, policy, seed in [line]]

    def print_paper(self, shape, most):
        """Means over patterns and seeds: the paper has fractions of contexts as well."""
        self.print(f"\n## {self.title(shape)}: most contexts under 10 and 25 ms, beside the paper"
                   f"\n\nMeans over patterns and seeds; not more than {self.counts[-1]} are tried, "
                   "so means that contain it are low. The paper: Llama 2 7B, three devices.")
        self.print_head("device", "limit", "budget", self.policies[0], "best of the others",
                        "ratio", "the paper: budget", "LLMS", "ratio to its baselines")
        for device, limit, share in itertools.product(self.devices, LIMITS, self.shares):
            counts = [mean([most[device, pattern, share, policy, seed][limit]
                            for pattern in self.patterns for seed in self.seeds])
                      for policy in self.policies]
            best = max(counts[1:], default=0)
            theirs = PAPER[limit][share]
            self.print(f"| {device} | {limit} ms | {100 * share:.0f} % | {counts[0]:.1f} | "
                       f"{best:.1f} | {counts[0] / best if best else 0:.2f} | "
                       f"{PAPER_BUDGETS[share]} | {theirs[0]} | {theirs[1]} |")

    def print_capacity(self, shape, most, limit):
        self.print(f"\n## {self.title(shape)}: most contexts under {limit} ms on average\n\n"
                   f"1: not even two; {self.counts[-1]}: or more.")
        self.print_head("device", "pattern", "budget", *self.policies)
        for device, pattern, share in itertools.product(self.devices, self.patterns, self.shares):
            self.print(f"| {device} | {pattern} | {100 * share:.0f} % |", " ".join(
                spread([most[device, pattern, share, policy, seed][limit]
                        for seed in self.seeds]) + " |" for policy in self.policies))

    def print_rows(self, title, label, rows):
        """@rows: what changes, and the point but for its seed."""
        points = {point: [point._replace(seed=seed) for seed in self.seeds] for _, point in rows}
        self.grid.run([one for seeds in points.values() for one in seeds])
        self.print(f"\n## {title}")
        self.print_head(label, "policy", "device", "mean ms", "p50", "p95", "p99", "all was there",
                        "MiB read", "rows recomputed", "MiB written while waiting", "switches")
        for value, point in rows:
            cells = [self.grid.cells[one] for one in points[point]]
            us = figures.latency(self.pool(points[point]))
            shares = " | ".join(f"{us[key] / 1000:.3g}" for key in ("p50", "p95", "p99"))
            there, read, rows_again, written, n = (
                mean([cell[name] for cell in cells]) for name in
                ("resident-share", "read-bytes", "recomputed-rows", "written-bytes", "switches"))
            self.print(f"| {value} | {point.policy} | {point.device} | "
                       f"{spread([cell['wait']['mean-ms'] for cell in cells])} | {shares} | "
                       f"{100 * there:.0f} % | {read / MIB:.3g} | {rows_again:.1f} | "
                       f"{written / MIB:.3g} | {n:.0f} |")

    def sweep_point(self, shape, device, policy):
        """Many contexts in little memory."""
        return self.grid.point(shape, device, "markov", 0.25, 16, policy, self.seeds[0])

    def run_ablations(self):
        for shape in self.shapes:
            self.print_rows(
                f"Ablations: {self.title(shape)}, Markov, 16 contexts, budget 25 %", "left out",
                [(what, self.sweep_point(shape, device, policy))
                 for device, (what, policy) in itertools.product(self.devices, ABLATIONS)])

    def run_sweeps(self):
        """Of the last model, with the first two policies."""
        shape = self.shapes[-1]
        longest = self.names["shapes"][shape][1]
        for title, label, what, values in SWEEPS:
            values = [value for value in values if what != "longest" or value <= longest]
            self.print_rows(
                f"{title}: {self.title(shape)}, Markov, 16 contexts, budget 25 %", label,
                [(value, self.sweep_point(shape, device, policy)._replace(**{what: value}))
                 for device, value, policy in itertools.product(self.devices, values,
                                                                self.policies[:2])])

    # --- in real time ---

    def run_real(self, name, policies=("llms",)):
        options = self.options
        self.json |= grid.run_part(name, rates=options.rates, folder=options.folder,
                                   model=options.model, seed=self.seeds[0], shape=self.shapes,
                                   policy=list(policies), switches=options.switches,
                                   peer=options.peer, deepest=options.deepest)
        return self.json[name].items()

    def run_switches(self):
        self.print(f"\n{self.options.switches} real switches of each model and policy, medians in "
                   "ms: predicted, measured, ratio\n\n"
                   "| model | policy | wait | | | whole call | | | MiB read | MiB written | rows "
                   "recomputed |\n"
                   "|---|---|---|---|---|---|---|---|---|---|---|")
        for shape, policies in self.run_real("switches", self.policies):
            for policy, result in policies.items():
                pairs = [(result[name]["predicted-ms"], result[name]["measured-ms"])
                         for name in ("wait", "call")]
                self.print(f"| {self.title(shape)} | {policy} |",
                           " ".join(f"{predicted:.3g} | {measured:.3g} | "
                                    f"{predicted / measured:.2f} |"
                                    for predicted, measured in pairs),
                           f"{result['read-bytes'] / MIB:.2f} | "
                           f"{result['written-bytes'] / MIB:.2f} | "
                           f"{result['recomputed-rows']:.1f} |")

    def run_ttft(self):
        self.print("\nTime to the first token of a question of 32 tokens, ms (medians)\n\n"
                   "| model | tokens before it | in memory | read from storage | computed anew | "
                   "gained |\n|---|---|---|---|---|---|")
        for name, result in self.run_real("ttft"):
            shape, _, depth = name.rpartition("-")
            there, restored, computed = (result[key]["median"]
                                         for key in ("there", "restored", "computed"))
            self.print(f"| {self.title(shape)} | {depth} | {there:.1f} | {restored:.1f} | "
                       f"{computed:.1f} | {computed / restored:.1f} × |")

    def run_slots(self):
        results = list(self.run_real("slots"))
        self.print(f"\nThe same context on storage, beside {results[0][1]['peer']}: MB, and ms "
                   "until it is in memory, both past the page cache\n\n"
                   "| model | tokens | MB | peer | ratio | ms | peer | ratio |\n"
                   "|---|---|---|---|---|---|---|---|")
        for shape, result in results:
            n_bytes, theirs, load, their_load = (
                result[key]["median"] for key in ("llmsvc-bytes", "peer-bytes", "llmsvc-load",
                                                  "peer-load"))
            self.print(f"| {self.title(shape)} | {self.names['shapes'][shape][1] // 2} | "
                       f"{n_bytes:.1f} | {theirs:.1f} | {n_bytes / theirs:.2f} | {load:.1f} | "
                       f"{their_load:.1f} | {load / their_load:.2f} |")
