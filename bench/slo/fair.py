# SPDX-License-Identifier: LGPL-2.1-or-later
"""What users keep beside one who floods the service.

Users are made up in an engine within llmsvc-bench slo-fair, because the bus gives the service the
number of the user; it prints what each call came to, and this sums it up.
"""
import collections
import subprocess

from lib.figures import percentile, print_json, write_json
from lib.model import Model, find_bench

# Of time to the first token and of tokens a second, each user's.
GOAL = 0.8
SIDES = ("ordinary", "flooded")


class Case:
    """So many users, of whom one floods in a class. calls: (milliseconds to the first token, tokens
    a second, tokens of the prompt) by side and user. totals: seconds, tokens read and written,
    tokens read, by side."""

    def __init__(self, n_users, flood_class):
        self.n_users = n_users
        self.flood_class = flood_class
        self.calls = collections.defaultdict(list)
        self.totals = {side: [0.0, 0.0, 0.0] for side in SIDES}

    def get_medians(self, side, user):
        """Calls, and medians of what they came to."""
        columns = list(zip(*self.calls[side, user])) or [(), (), ()]
        medians = [percentile(sorted(column), 0.5) for column in columns]
        return dict(zip(("calls", "ttft-ms", "tokens-per-second", "prompt-tokens"),
                        (len(columns[0]), *medians)))

    def compare(self, user):
        """Of both sides, and what the user keeps; 0: not every side has a call that counts."""
        sides = [self.get_medians(side, user) for side in SIDES]
        ordinary, flooded = sides
        if not ordinary["calls"] or not flooded["calls"]:
            return sides, 0.0, 0.0
        return (sides, ordinary["ttft-ms"] / flooded["ttft-ms"],
                flooded["tokens-per-second"] / ordinary["tokens-per-second"])

    def find_least(self):
        """Of all but the user that floods."""
        kept = [self.compare(user)[1:] for user in range(self.n_users - 1)]
        return tuple(map(min, zip(*kept)))

    def get_rates(self, at):
        return [self.totals[side][at] / max(self.totals[side][0], 1e-9) for side in SIDES]

    def print(self):
        for user in range(self.n_users):
            (ordinary, flooded), kept_ttft, kept_rate = self.compare(user)
            floods = user + 1 == self.n_users
            shows = not floods and kept_rate > 0
            print(f"| {self.n_users} | {self.flood_class} | "
                  f"{'floods, ' if floods else ''}{user + 1} | "
                  f"{ordinary['calls']} / {flooded['calls']} | "
                  f"{ordinary['ttft-ms']:.0f} / {flooded['ttft-ms']:.0f} | "
                  f"{f'{kept_ttft:.2f} ' if shows else ''}| "
                  f"{ordinary['tokens-per-second']:.1f} / {flooded['tokens-per-second']:.1f} | "
                  f"{f'{kept_rate:.2f} ' if shows else ''}|", flush=True)

    def describe_user(self, user):
        sides, kept_ttft, kept_rate = self.compare(user)
        floods = user + 1 == self.n_users
        kept = {} if floods else {"kept-ttft": kept_ttft, "kept-rate": kept_rate}
        return {"floods": floods, **dict(zip(SIDES, sides)), **kept}

    def to_json(self):
        kept_ttft, kept_rate = self.find_least()
        speeds = self.get_rates(1)
        return {"n": self.n_users, "flood-class": self.flood_class,
                "users": list(map(self.describe_user, range(self.n_users))),
                "least-kept-ttft": kept_ttft, "least-kept-rate": kept_rate,
                "ordinary-tokens-per-second": speeds[0], "flooded-tokens-per-second": speeds[1]}


def play(options, cache, cases):
    """Reads what the engine's program prints; yields each case when it is whole."""
    with Model(options.model) as model:
        bias = "{" + ", ".join(f"{token}: -100.0" for token in model.ends) + "}"
    numbers = [options.slo_class, options.seconds, options.rounds, options.threads, options.seed,
               options.divisor, *(f"{case.n_users}:{case.flood_class}" for case in cases)]
    program = subprocess.Popen([find_bench(), "slo-fair", options.model, cache, bias,
                                *map(str, numbers)], stdout=subprocess.PIPE, text=True)
    for line in program.stdout:
        kind, case, side, *fields = line.split()
        case, side = cases[int(case)], SIDES[int(side)]
        if kind == "call":
            case.calls[side, int(fields[0])].append(tuple(map(float, fields[1:])))
        else:
            case.totals[side] = [a + float(b) for a, b in zip(case.totals[side], fields)]
        if kind == "last":
            yield case
    if program.wait() != 0:
        raise RuntimeError("The engine did not play to the end")


def print_notes(options, cases):
    print()
    for case in cases:
        kept_ttft, kept_rate = case.find_least()
        speeds, read = case.get_rates(1), case.get_rates(2)
        kept = (f"each of the others keeps at least {kept_ttft:.2f} of its TTFT and "
                f"{kept_rate:.2f} of its tokens/s ({GOAL:.1f} is wanted)" if kept_rate > 0 else
                "not every user had a call that counts, more --seconds are needed")
        print(f"- {case.n_users} users, flood {case.flood_class}: {kept}; the model read and "
              f"wrote {speeds[0]:.0f} / {speeds[1]:.0f} tokens/s, of these {read[0]:.0f} / {read[1]:.0f} of prompts")
    print(f"\nclass {options.slo_class}, seed {options.seed}, {options.rounds} × "
          f"{options.seconds:g} s of each, {options.threads} threads")


def run(options, cache):
    cases = [Case(n, name) for name in options.flood_class for n in options.users]
    if not options.json:
        print("\n| users | flood | user | calls, ordinary / flooded | TTFT p50, ms | kept "
              "| tokens/s p50 | kept |\n|---|---|---|---|---|---|---|---|")
    for case in play(options, cache, cases):
        if not options.json:
            case.print()
    data = {"class": options.slo_class, "seed": options.seed, "seconds": options.seconds,
            "rounds": options.rounds, "threads": options.threads, "divisor": options.divisor,
            "goal": GOAL, "cases": [case.to_json() for case in cases]}
    if options.json:
        print_json(data)
    else:
        print_notes(options, cases)
    if options.json_file is not None:
        write_json(data, options.json_file)
