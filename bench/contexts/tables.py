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
ABLATIONS = ("llms", "llms-no-compression", "llms-no-pipeline", "llms-no-lifecycle")
# Title, label, what changes and its values.
SWEEPS = (
    ("Sweep of the tokens in a chunk", "tokens in a chunk", "chunk", (16, 32, 48, 64)),
    ("Sweep of the longest context", "tokens at most", "longest", (512, 1024, 2048, 4096)),
    ("Sweep of the rate of calls", "seconds between calls", "interval", (300, 60, 15, 5)),
)


class Ratios:
    def __init__(self):
        self.values = []

    def add(self, value):
        self.values.append(value)

    def mean(self):
        """The geometric mean; 0 without ratios."""
        total = 0.0
        for value in self.values:
            total += math.log(value)
        return math.exp(total / len(self.values)) if self.values else 0

    def range(self):
        return (min(self.values), max(self.values)) if self.values else (0, 0)


class Parts:
    def __init__(self, options, names, cells):
        self.options, self.names, self.grid = options, names, cells
        self.shapes, self.devices, self.policies = (list(names[key]) for key in
                                                    ("shapes", "devices", "policies"))
        self.patterns = PATTERNS[:1] if options.quick else PATTERNS
        self.contexts = (2, 8) if options.quick else (2, 4, 6, 8, 12, 16)
        self.shares = (0.5,) if options.quick else (0.25, 0.5, 0.75)
        self.json = {"seed": options.seed, "hours": options.hours}

    def print(self, *line, **more):
        if not self.options.json:
            print(*line, **more)

    def title(self, shape):
        return self.names["shapes"][shape][0]

    def print_head(self, *labels):
        columns = [*labels, *self.policies]
        self.print(f"\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")

    # --- in virtual time ---

    def run_grid(self):
        axes = (self.devices, self.patterns, self.shares, self.contexts, self.policies)
        self.grid.run([self.grid.point(shape, *rest) for shape in self.shapes
                       for rest in itertools.product(*axes)])
        if self.options.json:
            return
        for shape in self.shapes:
            if len(self.policies) > 1:
                print(f"\n{self.title(shape)}: latency of others divided by that of "
                      f"{self.policies[0]}, all patterns, budgets and numbers of contexts\n\n"
                      "| device | policy | geometric mean of cells | least | best | ratio of "
                      "means | geometric mean of switches | if all overlapped | without a prompt "
                      "|\n"
                      "|---|---|---|---|---|---|---|---|---|")
            for device in self.devices:
                for policy in self.policies[1:]:
                    self.print_comparison(shape, device, policy)
            for device in self.devices:
                self.print_latencies(shape, device)

    def print_comparison(self, shape, device, policy):
        means, calls, overlapped, reads = (Ratios() for _ in range(4))
        sums = [0.0, 0.0]
        for rest in itertools.product(self.patterns, self.shares, self.contexts):
            first, other = (self.grid.cells[self.grid.point(shape, device, *rest, name)]
                            for name in (self.policies[0], policy))
            if first["switches"] == 0:
                continue
            for ratios, name in ((means, "wait"), (overlapped, "if-overlapped"),
                                 (reads, "without-prompt")):
                ratios.add(other[name]["mean-ms"] / first[name]["mean-ms"])
            sums[0] += first["wait"]["mean-ms"]
            sums[1] += other["wait"]["mean-ms"]
            for mine, theirs in zip(first["waits"], other["waits"]):
                calls.add(theirs / mine)
        least, best = means.range()
        print(f"| {device} | {policy} | {means.mean():.3g} | {least:.3g} | {best:.3g} | "
              f"{sums[1] / sums[0] if sums[0] > 0 else 0:.3g} | {calls.mean():.3g} | "
              f"{overlapped.mean():.3g} | {reads.mean():.3g} |")

    def print_latencies(self, shape, device):
        """All patterns together."""
        print(f"\n{self.title(shape)}, {device}: switching latency in ms, mean (p50 / p95 / p99), "
              "all patterns")
        self.print_head("budget", "contexts")
        for share, n in itertools.product(self.shares, self.contexts):
            row = f"| {100 * share:.0f} % | {n} |"
            for policy in self.policies:
                waits = [wait for pattern in self.patterns for wait in self.grid.cells[
                    self.grid.point(shape, device, pattern, share, n, policy)]["waits"]]
                us = figures.latency(waits)
                mean, *shares = (f"{us[key] / 1000:.3g}" for key in ("mean", "p50", "p95", "p99"))
                row += f" {mean} ({' / '.join(shares)}) |"
            print(row)

    def run_capacity(self):
        """Many replays: of the largest model alone. Once above a limit, a lucky trace of more
        contexts does not count."""
        shape = self.shapes[-1]
        lines = list(itertools.product(self.devices, self.patterns, self.shares, self.policies))
        most = {line: dict.fromkeys(LIMITS, 0) for line in lines}
        open_limits = {line: set(LIMITS) for line in lines}
        for n in COUNTS:
            points = {line: self.grid.point(shape, *line[:3], n, line[3])
                      for line in lines if open_limits[line]}
            self.grid.run(points.values())
            for line, point in points.items():
                for limit in list(open_limits[line]):
                    if self.grid.cells[point]["wait"]["mean-ms"] < limit:
                        most[line][limit] = n
                    else:
                        open_limits[line].remove(limit)
        for limit in LIMITS:
            self.print(f"\n{self.title(shape)}: most contexts under {limit} ms on average (1: not "
                       f"even two; ≥: not more than {COUNTS[-1]} were tried)")
            self.print_head("device", "pattern", "budget")
            for device, pattern, share in itertools.product(self.devices, self.patterns,
                                                            self.shares):
                counts = [most[device, pattern, share, policy][limit] for policy in self.policies]
                # One context needs no switch.
                self.print(f"| {device} | {pattern} | {100 * share:.0f} % |", " ".join(
                    f"{'≥ ' if n == COUNTS[-1] else ''}{max(n, 1)} |" for n in counts))
        self.json["capacity"] = [
            {"shape": shape, "device": device, "policy": policy, "pattern": pattern,
             "budget-share": share,
             **{f"contexts-under-{limit}-ms": most[device, pattern, share, policy][limit]
                for limit in LIMITS}} for device, pattern, share, policy in lines]

    def print_rows(self, title, label, rows):
        """@rows: what changes, and the point."""
        self.grid.run([point for _, point in rows])
        self.print(f"\n{title}\n\n| {label} | policy | device | mean ms | p50 | p95 | p99 | all "
                   "was there | MiB read | rows recomputed | MiB written while waiting |\n"
                   "|---|---|---|---|---|---|---|---|---|---|---|")
        for value, point in rows:
            cell = self.grid.cells[point]
            wait = cell["wait"]
            self.print(f"| {value} | {point.policy} | {point.device} | {wait['mean-ms']:.3g} | "
                       f"{wait['p50-ms']:.3g} | {wait['p95-ms']:.3g} | {wait['p99-ms']:.3g} | "
                       f"{100 * cell['resident-share']:.0f} % | {cell['read-bytes'] / MIB:.3g} | "
                       f"{cell['recomputed-rows']:.1f} | {cell['written-bytes'] / MIB:.3g} |")

    def sweep_point(self, shape, device, policy):
        """Many contexts in little memory."""
        return self.grid.point(shape, device, "markov", 0.25, 16, policy)

    def run_ablations(self):
        self.print_rows("Ablations: markov, 16 contexts, budget 25 %", "model", [
            (shape, self.sweep_point(shape, device, policy))
            for shape, device, policy in itertools.product(self.shapes, self.devices, ABLATIONS)])

    def run_sweeps(self):
        """Of the last model, with the first two policies."""
        shape = self.shapes[-1]
        for title, label, what, values in SWEEPS:
            self.print_rows(
                f"{title}: {self.title(shape)}, markov, 16 contexts, budget 25 %", label,
                [(value, self.sweep_point(shape, device, policy)._replace(**{what: value}))
                 for device, value, policy in itertools.product(self.devices, values,
                                                                self.policies[:2])])

    # --- in real time ---

    def run_real(self, name):
        options = self.options
        self.json |= grid.run_part(name, rates=options.rates, folder=options.folder,
                                   model=options.model, seed=options.seed, shape=self.shapes,
                                   policy="llms", switches=options.switches, peer=options.peer)
        return self.json[name].items()

    def run_switches(self):
        self.print(f"\n{self.options.switches} real switches of each model to contexts of which a "
                   "random part was away, question of 32 tokens, means in ms: predicted, measured, "
                   "ratio\n\n"
                   "| model | read | | | wait | | | whole call | | | MiB read | rows recomputed |\n"
                   "|---|---|---|---|---|---|---|---|---|---|---|---|")
        for shape, result in self.run_real("switches"):
            pairs = [(result[name]["predicted-ms"], result[name]["measured-ms"])
                     for name in ("read", "wait", "call")]
            self.print(f"| {self.title(shape)} |",
                       " ".join(f"{predicted:.2f} | {measured:.2f} | {predicted / measured:.3f} |"
                                for predicted, measured in pairs),
                       f"{result['read-bytes'] / MIB:.1f} | {result['recomputed-rows']:.1f} |")

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
