# SPDX-License-Identifier: LGPL-2.1-or-later
"""From the first call on a bus, which starts the service, to the first byte of an answer: with a
model that was never prepared, with a prepared copy in the page cache and on the disk only; beside
how long other programs take for a token; and what two daemons share of a model."""
import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time

from lib import answers, bus, figures, process

PROMPT = "Hi"
N_TOKENS = 4


class Load:
    def __init__(self, options):
        self.options = options
        self.figures = figures.Figures()
        self.failed = set()

    def folder(self):
        return tempfile.TemporaryDirectory(prefix="llmsvc-bench-", dir=self.options.folder)

    def start(self, cache):
        return contextlib.closing(bus.PrivateBus(self.options.daemon, self.options.model,
                                                 cache=cache))

    def measure_start(self, name, cache):
        """Of a service that ends before the next one starts: it finishes writing its copy then."""
        with self.start(cache) as private:
            self.figures.add(name, "ms", *answers.time_first_bytes(private, PROMPT, N_TOKENS))

    def measure_starts(self):
        with self.folder() as cache:
            process.drop_from_cache(self.options.model)
            self.measure_start("first start, model file not in the page cache", cache)
        with self.folder() as cache:
            self.measure_start("first start, model file in the page cache", cache)
            self.measure_start("second start, prepared copy in the page cache", cache)
            process.drop_from_cache(self.options.model)
            process.drop_from_cache(cache)
            self.measure_start("second start, nothing in the page cache", cache)

    def measure_peer(self, command, is_warm):
        """One that fails is said, and not asked again."""
        name = os.path.basename(command)
        if not is_warm:
            process.drop_from_cache(self.options.model)
        begin = time.monotonic()
        try:
            text = subprocess.run(
                [*shlex.split(command), "-m", self.options.model, "-t",
                 str(self.options.threads or os.cpu_count()), "-o", "json", "-p", "0", "-n", "1",
                 "-r", "1"], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
            ms = (time.monotonic() - begin) * 1000
            if not any(result.get("n_gen") == 1 and result.get("avg_ns", 0) > 0
                       for result in json.loads(text)):
                raise ValueError("its JSON lacks a result")
        except (OSError, ValueError, AttributeError, subprocess.CalledProcessError) as error:
            print(f"llmsvc-bench: left out: {name}: {error}", file=sys.stderr)
            self.failed.add(command)
            return
        self.figures.add(f"{name}, from its start to one token, model file "
                         f"{'in' if is_warm else 'not in'} the page cache", "ms", ms)

    def measure_sharing(self):
        """Of memory that several processes map, each one's Pss has its share only, so that the sum
        of them is what is really held."""
        with self.folder() as cache, contextlib.ExitStack() as stack:
            with self.start(cache) as private:
                answers.time_first_bytes(private, PROMPT, N_TOKENS)
            pids = []
            for _ in range(2):
                private = stack.enter_context(self.start(cache))
                answers.time_first_bytes(private, PROMPT, N_TOKENS)
                pids.append(private.find_daemon())
                held = [process.read_fields(f"/proc/{pid}/smaps_rollup") for pid in pids]
                if len(pids) == 1:
                    self.figures.add("one service: memory of its own and its share (Pss)", "MiB",
                                     held[0]["Pss"] / process.MIB)
            for name, key in (("sum of resident memory (Rss)", "Rss"),
                              ("sum of what they really hold (Pss)", "Pss")):
                self.figures.add(f"two services: {name}", "MiB",
                                 sum(fields[key] for fields in held) / process.MIB)


def main(arguments):
    parser = figures.Options("load", __doc__)
    parser.add("daemon", meta="FILE", help="The llmsvcd to measure")
    parser.add_argument("-m", "--model", metavar="FILE", help="The GGUF file to answer with")
    parser.add("folder", meta="FOLDER",
               help="Where prepared copies are kept meanwhile (the folder for temporary files)")
    parser.add("peer", meta="LLAMA_BENCH", action="append", default=[],
               help="A program like llama-bench to run in turns; may be given several times")
    parser.add("threads", int, 0, help="Threads of peers (all processors)")
    parser.add("runs", int, 5, help="Samples of each figure (5)")
    parser.add_flag("json", "One JSON object")
    options = parser.parse_args(arguments)
    if options.daemon is None or options.model is None or options.runs < 1 or options.threads < 0:
        parser.error("--daemon FILE and --model FILE are needed")
    load = Load(options)
    for _ in range(options.runs):
        load.measure_starts()
        for command in options.peer:
            for is_warm in (False, True):
                if command not in load.failed:
                    load.measure_peer(command, is_warm)
    load.measure_sharing()
    load.figures.print(options.json)
    return 0
