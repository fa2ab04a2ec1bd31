# SPDX-License-Identifier: LGPL-2.1-or-later
"""The service as its users meet it: from the first call on a bus to the first byte of text; what
the bus adds to an answer, beside the same engine in one process, both interleaved; and what the
process holds."""
import contextlib
import pathlib
import tempfile
import time

from lib import answers, bus, figures, process

SETTLE_S = 0.5
PROMPT = "I want a restaurant in San Jose."
MOMENTS = ("no model loaded yet", "model loaded, one context", "after Trim critical")
NAMES = (("whole answer over the bus", "ms"), ("whole answer in one process", "ms"),
         ("over the bus / in one process", "×"),
         ("CPU over the bus: service, bus and caller", "ms"), ("CPU in one process", "ms"),
         ("property read", "ms"))


class Service:
    def __init__(self, options, cache):
        self.options, self.cache = options, cache
        self.figures = figures.Figures()

    def start(self):
        return contextlib.closing(bus.PrivateBus(self.options.daemon, self.options.model,
                                                 cache=self.cache))

    def time(self, private, n=1):
        return answers.time_first_bytes(private, PROMPT, self.options.tokens, n)

    def measure_activation(self):
        """The first start of all prepares the model, and does not count."""
        with self.start() as private:
            self.time(private)
        for _ in range(self.options.runs):
            process.drop_from_cache(self.options.model)
            process.drop_from_cache(self.cache)
            with self.start() as private:
                self.figures.add("activation to first byte, model not in page cache", "ms",
                                 *self.time(private))
            with self.start() as private:
                first, second = self.time(private, 2)
                self.figures.add("activation to first byte, model in page cache", "ms", first)
                self.figures.add("the same call, service running", "ms", second)

    def measure_bus(self):
        with self.start() as private:
            for samples in answers.run(private.address, PROMPT, self.options.tokens,
                                       self.options.runs, self.options.model):
                for (name, unit), sample in zip(NAMES, samples):
                    self.figures.add(name, unit, sample)

    def measure_life(self, held):
        """Resident memory, and that which no file backs, at each of its moments."""
        with self.start() as private:
            private.connection.get(bus.SERVICE, "Version")
            pid = private.find_daemon()
            for moment in MOMENTS:
                if moment == MOMENTS[1]:
                    self.time(private)
                elif moment == MOMENTS[2]:
                    private.connection.call(bus.MEMORY, "Trim", "(sa{sv})", "critical", bus.NONE)
                # What it does behind the reply is done.
                time.sleep(SETTLE_S)
                fields = process.read_fields(f"/proc/{pid}/status")
                for name, key in (("resident, ", "VmRSS"),
                                  ("of which not backed by files, ", "RssAnon")):
                    held.add(name + moment, "MiB", fields[key] / process.MIB)


def main(arguments):
    parser = figures.Options("service", __doc__)
    parser.add("daemon", meta="FILE", help="The llmsvcd to measure")
    parser.add("model", meta="FILE", help="The GGUF file to answer with")
    parser.add("runs", int, 11, help="Samples of each figure (11)")
    parser.add("tokens", int, 32, help="Tokens of an answer (32)")
    parser.add_flag("json", "One JSON object")
    options = parser.parse_args(arguments)
    if options.daemon is None or options.model is None or options.runs < 1 or options.tokens < 1:
        parser.error("--daemon FILE and --model FILE are needed")
    with tempfile.TemporaryDirectory(prefix="llmsvc-bench-") as cache:
        service = Service(options, pathlib.Path(cache))
        service.measure_activation()
        service.measure_bus()
        for _ in range(options.runs):
            service.measure_life(service.figures)
    service.figures.print(options.json)
    return 0
