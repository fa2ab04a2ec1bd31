# SPDX-License-Identifier: LGPL-2.1-or-later
"""Random numbers, medians, percentiles, options, tables and JSON of the benchmarks."""
import argparse
import json
import math
import sys

MASK = (1 << 64) - 1


class Random:
    """The same numbers on every machine for the same seed (splitmix64, by Steele, Lea and Flood).

    bench-random.h has the same in C.
    """

    def __init__(self, state):
        self.state = state & MASK

    @classmethod
    def derive(cls, seed, purpose):
        """A state that has nothing to do with others of the same seed."""
        random = cls(cls(seed).next() ^ (purpose * 0xd1342543de82ef95))
        random.next()
        return random

    def next(self):
        self.state = x = (self.state + 0x9e3779b97f4a7c15) & MASK
        x = ((x ^ (x >> 30)) * 0xbf58476d1ce4e5b9) & MASK
        x = ((x ^ (x >> 27)) * 0x94d049bb133111eb) & MASK
        return x ^ (x >> 31)

    def get(self):
        """At least 0, less than 1."""
        return (self.next() >> 11) / 9007199254740992.0

    def range(self, least, most):
        """@least, …, @most."""
        return least + int(self.get() * (most - least + 1))

    def choose(self, items):
        return items[self.range(0, len(items) - 1)]

    def shuffle(self, items):
        for i in range(len(items) - 1, 0, -1):
            other = self.range(0, i)
            items[i], items[other] = items[other], items[i]


def median(samples):
    """0 without samples."""
    ordered = sorted(samples)
    n = len(ordered)
    return (ordered[(n - 1) // 2] + ordered[n // 2]) / 2 if n else 0


def percentile(ordered, share):
    """The least of sorted samples that @share of all don't exceed; 0 without samples."""
    rank = min(max(math.ceil(share * len(ordered)), 1), len(ordered))
    return ordered[rank - 1] if ordered else 0


def latency(samples):
    """Mean and percentiles, as the JSON has them."""
    ordered = sorted(samples)
    return {"n": len(ordered), "mean": sum(ordered) / max(len(ordered), 1),
            "p50": percentile(ordered, 0.5), "p95": percentile(ordered, 0.95),
            "p99": percentile(ordered, 0.99), "most": ordered[-1] if ordered else 0}


class Figures:
    """Samples by name, in the order in which the names came."""

    def __init__(self):
        self.samples = {}
        self.units = {}

    def add(self, name, unit, sample):
        self.units.setdefault(name, unit)
        self.samples.setdefault(name, []).append(sample)

    def median(self, name):
        return median(self.samples.get(name, ()))

    def to_json(self):
        return {name: {"unit": self.units[name], "median": median(samples), "samples": samples}
                for name, samples in self.samples.items()}

    def print(self, as_json):
        if as_json:
            print_json(self.to_json())
            return
        print("| figure | median | least | greatest | n |\n|---|---|---|---|---|")
        for name, samples in self.samples.items():
            print(f"| {name} | {median(samples):.2f} {self.units[name]} | {min(samples):.2f} | "
                  f"{max(samples):.2f} | {len(samples)} |")


def print_json(data):
    print(json.dumps(data, indent=2, ensure_ascii=False))


def write_json(data, path):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(data, file, indent=2, ensure_ascii=False)
        file.write("\n")


class Options(argparse.ArgumentParser):
    """Options of a benchmark: a wrong one ends it with status 2."""

    def __init__(self, name, description):
        super().__init__(prog=f"llmsvc-bench {name}", description=description, allow_abbrev=False)

    def add(self, name, kind=str, default=None, meta="N", help=None, **more):
        self.add_argument(f"--{name}", type=kind, default=default, metavar=meta, help=help, **more)

    def add_flag(self, name, help):
        self.add_argument(f"--{name}", action="store_true", help=help)

    def error(self, message):
        print(f"llmsvc-bench: {message}", file=sys.stderr)
        sys.exit(2)


def fail(message):
    if isinstance(message, OSError) and message.strerror:
        message = f"{message.filename}: {message.strerror}" if message.filename else message.strerror
    print(f"llmsvc-bench: {message}", file=sys.stderr)
    return 1
