# SPDX-License-Identifier: LGPL-2.1-or-later
"""A steady caller beside a hostile one: how much slower the first becomes, by kind of harm."""
import sys
import time

from lib import bus, process
from lib.figures import Figures, fail, median, write_json
from lib.model import Model
from soak.watch import Probe, sum_up

PROMPT = "I want a restaurant in San Jose."
TOKENS = 32
ROUNDS, WINDOW_S = 5, 6
QUICK_ROUNDS, QUICK_WINDOW_S = 1, 1
THINK_S = 0.02
SETTLE_S = 0.5
# How much slower the caller beside may become.
MAX_RATIO = 1.10
# Those that ask for nothing but answers only share what they may have.
KINDS = ["calls", "properties", "contexts", "cancels", "garbage", "connections", "pipes", "huge",
         "answers"]
NOT_JUDGED = {"pipes", "answers"}
BESIDE = {"alone": None, "bus flooded": "bus", "beside it": ""}


class Victim:
    """The steady caller. It keeps within its quotas, so that an answer must come."""

    def __init__(self, soak):
        self.address = soak.address
        self.connection = bus.Connection(soak.address, "org.example.Steady")
        self.context = self.connection.create_context()
        with Model(soak.options.model) as model:
            # The same answers in each window.
            self.answer = bus.greedy(TOKENS, slo=bus.option("s", "interactive"),
                                     **bus.make_bias(model.ends))
        self.probe = Probe(soak.address)

    def ask(self):
        """Milliseconds to the first token, and tokens a second (None: too few)."""
        begin = time.monotonic()
        stream = bus.Stream(self.connection, self.context, PROMPT, self.answer)
        stream.read()
        end = time.monotonic()
        if stream.results is None:
            raise bus.CallError(stream.failure or "partial", "the steady caller's answer failed")
        n = stream.results["output-tokens"]
        self.connection.call(bus.CONTEXT, "Rollback", "(ua{sv})", 1, bus.NONE, path=self.context)
        speed = (n - 1) / (end - stream.first_s) if n > 1 and end > stream.first_s else None
        return (stream.first_s - begin) * 1000, speed

    def look(self, kind, seconds, seed):
        """Medians of one window of time, beside a flood of @kind if there is one."""
        flood = kind and process.spawn_self("soak", "--flood-at", self.address, "--seed", seed,
                                            "--hostile", kind)
        try:
            time.sleep(SETTLE_S)
            begin = time.monotonic()
            seen = []
            while not seen or time.monotonic() < begin + seconds:
                seen.append(self.ask())
                time.sleep(THINK_S)
        finally:
            process.kill(flood)
        reads = sum_up(self.probe.read(), begin, begin + seconds)
        return {"first token": median([ttft for ttft, _ in seen]),
                "speed": median([speed for _, speed in seen if speed is not None]),
                "property read p99": reads["p99-ms"]}


def run_round(victim, figures, kind, seconds, seed):
    """@kind beside nothing, beside a flood of the bus that the service has no part in, and beside
    the harm, one after the other."""
    units = {"first token": "ms", "speed": "tokens/s", "property read p99": "ms"}
    seen = {}
    for name, flood in BESIDE.items():
        seen[name] = victim.look(kind if flood == "" else flood, seconds, seed)
        for what, unit in units.items():
            figures.add(f"{kind}: {what}, {name}", unit, seen[name][what])
    harm = seen["beside it"]
    for name in ("alone", "bus flooded"):
        # A window may be too short for a single answer of some length.
        if seen[name]["first token"] > 0:
            figures.add(f"{kind}: first token, beside it / {name}", "×",
                        harm["first token"] / seen[name]["first token"])
        if harm["speed"] > 0:
            figures.add(f"{kind}: time of a token, beside it / {name}", "×",
                        seen[name]["speed"] / harm["speed"])


def is_within(figures, kind):
    return all(figures.median(f"{kind}: {what}, beside it / bus flooded") <= MAX_RATIO
               for what in ("first token", "time of a token"))


def measure(soak):
    """False when a kind is unknown, or the steady caller was slowed."""
    options = soak.options
    for kind in options.hostile:
        if kind not in ["all", *KINDS]:
            fail(f"no harm is called “{kind}”; all, or {', '.join(KINDS)}")
            return False
    kinds = [kind for kind in KINDS if kind in options.hostile or "all" in options.hostile]
    rounds, seconds = (QUICK_ROUNDS, QUICK_WINDOW_S) if options.quick else (ROUNDS, WINDOW_S)
    figures = Figures()
    victim = Victim(soak)
    try:
        for number in range(rounds):
            for kind in kinds:
                run_round(victim, figures, kind, seconds, number + 1)
    finally:
        victim.probe.close()
        victim.connection.close()
    figures.print(options.json)
    slowed = [kind for kind in kinds if kind not in NOT_JUDGED and not is_within(figures, kind)]
    for kind in slowed:
        print(f"{kind}: the caller beside is more than {100 * (MAX_RATIO - 1):.0f} % slower",
              file=sys.stderr)
    if options.json_file is not None:
        write_json(figures.to_json(), options.json_file)
    return not slowed
