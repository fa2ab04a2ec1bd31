# SPDX-License-Identifier: LGPL-2.1-or-later
"""Many applications for a long time, with all that goes wrong in practice.

What the service holds must stay the same after a while, no acknowledged turn may be lost, and
properties must be readable at any moment. docs/benchmarks/soak.md tells how it is measured.
"""
import argparse
import os
import signal
import sys
import time

from lib import bus, process
from lib.figures import Options, Random, fail
from lib.model import ModelError
from soak import flood, hostile, report, watch
from soak.load import Load

N_KILLED = 2
CRASH_LOAD_S = 3
STEP_S = 0.02
QUIET_MAX_S = 20
QUICK = {"minutes": 0.35, "apps": 8, "contexts": 32, "think": 200, "tokens": 4000, "interval": 1,
         "rest": 3}
# Figures of GetStatistics() that change while work goes on behind the last reply.
BACKGROUND = ("steps", "kv-packed-chunks", "kv-written-chunks", "kv-evicted-chunks", "calls")


class Callers:
    """Processes that begin answers, and are killed at random moments."""

    def __init__(self, soak):
        self.soak = soak
        self.random = Random.derive(soak.options.seed, 0xdead)
        self.processes = [None] * N_KILLED
        self.kill_s = [0] * N_KILLED

    def turn_over(self, starts=True):
        """Kills those whose time has come, and starts others."""
        now = time.monotonic()
        for i, caller in enumerate(self.processes):
            if caller is not None and (not starts or now >= self.kill_s[i]):
                process.kill(caller)
                self.processes[i] = None
                self.soak.n_killed += 1
            if self.processes[i] is None and starts:
                seed = self.random.next() % (1 << 31)
                self.processes[i] = process.spawn_self("soak", "--call-at", self.soak.address,
                                                       "--seed", seed)
                self.kill_s[i] = now + self.random.range(300, 5000) / 1000


class Soak:
    """One run. Times are of time.monotonic()."""

    def __init__(self, options, private):
        self.options = options
        self.bus = private
        self.address = self.bus.address
        self.pid = 0
        self.under_load, self.at_rest, self.pauses = [], [], []
        self.n_killed = 0
        # The model is there before anything is counted.
        connection = self.bus.connection
        bus.Stream(connection, connection.create_context(), "Hello", bus.greedy(4)).read()
        self.pid = self.bus.find_daemon()

    def tell(self, what):
        print(f"{time.monotonic() - self.begin_s:6.1f} s: {what}", file=sys.stderr)

    def take_sample(self):
        return watch.take_sample(self.bus.connection, self.pid, self.bus.state, self.begin_s)

    def await_quiet(self):
        """Work goes on after the last reply: chunks are packed and written ahead."""
        until = time.monotonic() + QUIET_MAX_S
        before, n_same = None, 0
        while n_same < 5 and time.monotonic() < until:
            statistics = self.bus.connection.get_statistics()
            now = [statistics.get(key, 0) for key in BACKGROUND]
            n_same = n_same + 1 if now == before else 0
            before = now
            time.sleep(2 * STEP_S)

    def sample_at_rest(self, callers):
        """All wait, and only what the contexts need is left."""
        begin = time.monotonic()
        callers.turn_over(starts=False)
        self.load.pause()
        self.await_quiet()
        self.at_rest.append({**self.take_sample(), "seconds": begin - self.begin_s})
        self.load.go_on()
        self.pauses.append((begin, time.monotonic()))

    def run_load(self):
        options = self.options
        callers = Callers(self)
        probe = watch.Probe(self.address)
        self.begin_s = time.monotonic()
        sample_s, rest_s = self.begin_s + options.interval, self.begin_s + options.rest
        while time.monotonic() < self.begin_s + options.minutes * 60:
            callers.turn_over()
            time.sleep(STEP_S)
            if time.monotonic() >= sample_s:
                self.under_load.append(self.take_sample())
                sample_s += options.interval
            if time.monotonic() >= rest_s:
                self.sample_at_rest(callers)
                rest_s += options.rest
        self.end_s = time.monotonic()
        callers.turn_over(starts=False)
        probe.close()
        self.probes = probe.read()

    def restart_service(self, number):
        """SIGKILL in the middle of the load, or SIGTERM at rest. Contexts compared afterwards."""
        pid = self.pid
        if number == signal.SIGKILL:
            time.sleep(CRASH_LOAD_S)
        else:
            self.load.pause()
        self.load.expect_loss()
        if number == signal.SIGKILL:
            os.kill(pid, number)
        else:
            process.stop(pid)
        while self.bus.find_daemon() == pid:
            time.sleep(STEP_S)
        n = self.load.reopen()
        self.pid = self.bus.find_daemon()
        return n

    def run(self):
        self.load = Load(self.options, self.address)
        try:
            self.run_load()
            self.tell("all contexts are compared")
            self.load.pause()
            self.n_compared_at_end = self.load.compare()
            self.load.go_on()
            self.tell("the service is killed in the middle of the load")
            self.n_compared_after_kill = self.restart_service(signal.SIGKILL)
            self.tell("the service is ended")
            self.n_compared_after_end = self.restart_service(signal.SIGTERM)
            self.load.pause()
            self.tell("the end")
            return report.report(self)
        finally:
            self.load.close()


def make_config(options):
    return f"[service]\nbudget={options.budget or ('0' if options.hostile else '160M')}\n"


def parse(arguments):
    parser = Options("soak", "Many applications for a long time, and hostile callers.")
    parser.add("daemon", meta="FILE", help="The llmsvcd to measure")
    parser.add("model", meta="FILE", help="The GGUF file to answer with")
    parser.add("minutes", float, 30, help="How long (30)")
    parser.add("apps", int, 50, help="Applications (50)")
    parser.add("contexts", int, 200, help="Contexts of all together (200)")
    parser.add("think", int, 1000,
               help="Milliseconds between two calls of an application, on average (1000)")
    parser.add("tokens", int, 40000, help="Tokens held by all contexts (40000)")
    parser.add("answer", int, 24, help="Tokens of the longest usual answer (24)")
    parser.add("budget", meta="BYTES", help="Memory the service may hold, as in its configuration "
               "(160M; with --hostile what it likes)")
    parser.add("seed", int, 1, help="Of all that is random (1)")
    parser.add_flag("quick", "A small load for half a minute")
    parser.add("hostile", meta="KIND", action="append", help="Instead: a steady caller beside one "
               "that means harm; a kind, or all (repeatable)")
    parser.add_flag("json", "One JSON object instead of tables")
    parser.add("json-file", meta="FILE", help="Write the JSON there as well")
    parser.add("plots", meta="FOLDER", help="Write plots into this folder")
    for name in ("probe-at", "call-at", "flood-at"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.interval, options.rest = 10, 30
    if options.quick:
        vars(options).update(QUICK)
    is_process = options.probe_at or options.call_at or options.flood_at
    if not is_process and not (
            options.daemon and options.model and 0 < options.minutes < 100000 and
            0 < options.apps <= 200 and options.apps <= options.contexts <= 60 * options.apps and
            0 <= options.think < 1000000 and options.tokens > 0 and 2 <= options.answer <= 500 and
            options.seed >= 0):
        parser.error("--daemon FILE and --model FILE are needed, and numbers within reason")
    return options


def main(arguments):
    options = parse(arguments)
    if options.probe_at:
        return watch.run_probe(options.probe_at)
    if options.call_at:
        return watch.run_caller(options.call_at, options.seed)
    if options.flood_at:
        return flood.run(options.flood_at, options.hostile[0], options.seed)
    private = None
    try:
        private = bus.PrivateBus(options.daemon, options.model, make_config(options))
        soak = Soak(options, private)
        return 0 if (hostile.measure(soak) if options.hostile else soak.run()) else 1
    except (bus.CallError, ModelError, OSError) as error:
        return fail(error)
    finally:
        if private is not None:
            private.close()
