# SPDX-License-Identifier: LGPL-2.1-or-later
"""Storms: the service in a control group with less memory than its budget, beside a program that
takes memory, touches it and lets go.

How long that program waits for memory, beside the service and beside other servers; whether any is
killed; what of the answers is lost. docs/benchmarks/storm.md tells how.
"""
import os
import pathlib
import shutil
import sys
import tempfile

from lib import process
from lib.figures import Options, fail, print_json, write_json
from lib.group import Group, NoGroup
from lib.model import ModelError
from storm import eater, report
from storm.plan import N_APPS, Plan
from storm.runs import catch_signals, count_different, is_interrupted, run
from storm.servers import Other, ServerError, Service, Setup

OWN_NAME = "llmsvc"
# Where the machine can't do it: what test programs call skipped.
SKIPPED = 77
# Of the model file, in the page cache when a server starts.
MAX_SHARE_WARM = 0.01
MAX_STORMS = 1000


class Storms:
    """All runs of one plan. samples: of the service's run."""

    def __init__(self, options, plan, model):
        self.options, self.plan, self.model = options, plan, model
        self.results, self.samples = [], []

    def write_files(self):
        """After each run: they take long."""
        options = self.options
        data = report.make_data(self.plan, self.results)
        if options.json_file is not None:
            write_json(data, options.json_file)
        if options.plot is not None:
            import plots
            plots.draw("storm", [data], options.plot)
        if options.trace is not None and self.samples:
            pathlib.Path(options.trace).write_text(report.make_trace(self.plan, self.samples))

    def run_one(self, kind, name, program=None):
        """In a folder of its own, with the model's file cold."""
        options, plan = self.options, self.plan
        print(f"llmsvc-bench: {len(plan.order)} storms beside {name}", file=sys.stderr)
        if is_interrupted.is_set():
            raise ServerError("ended by a signal")
        process.drop_from_cache(self.model)
        if (share := process.count_cached(self.model)) > MAX_SHARE_WARM:
            raise ServerError(f"{self.model}: {100 * share:.1f} % stay in the page cache")
        with tempfile.TemporaryDirectory(prefix="llmsvc-bench-") as folder:
            setup = Setup(program, self.model, folder, options.threads, None)
            result, samples, answers = run(kind, setup, plan)
        moments = list(map(report.describe, report.thin(samples, report.MAX_MOMENTS)))
        self.results.append({"beside": name, **result, "moments": moments})
        if kind is Service:
            self.samples = samples
        self.write_files()
        if kind is Service and options.minutes == 0:
            print("llmsvc-bench: the same answers undisturbed", file=sys.stderr)
            with tempfile.TemporaryDirectory(prefix="llmsvc-bench-") as folder:
                setup = Setup(program, self.model, folder, options.threads, None)
                self.results[-1]["different"] = count_different(answers, setup, plan)
            self.write_files()

    def run(self):
        options = self.options
        self.run_one(None, "nobody")
        self.run_one(Service, OWN_NAME, options.daemon)
        for peer in options.peer or []:
            self.run_one(Other, os.path.basename(peer), peer)

    def print(self):
        if self.options.json:
            print_json(report.make_data(self.plan, self.results))
        else:
            report.print_tables(self.plan, self.results)

    def is_kept(self):
        """Whether what the service promises was kept: no process killed, nothing lost or changed."""
        own = self.results[1]
        return (own["killed-in-storm"] == 0 and own["oom-kills"] == 0 and "failure" not in own and
                own["different"] <= 0 and own["eater-lived"] and own["answers"] >= N_APPS)


def make_plan(options):
    plan = Plan(options.model, options.storms, options.seed, options.hurry)
    if options.minutes == 0:
        return plan
    storm_s = plan.grow_s + plan.hold_s + plan.pause_s
    return Plan(options.model, int(options.minutes * 60 / storm_s), options.seed, options.hurry)


def parse(arguments):
    parser = Options("storm", "A program that takes memory, beside the service and beside others.")
    parser.add("daemon", meta="FILE", help="The llmsvcd to measure")
    parser.add_argument("-m", "--model", metavar="FILE", help="The GGUF file to answer with")
    parser.add("peer", meta="LLAMA_SERVER", action="append", help="A program like llama-server, "
               "with arguments if any; may be given several times")
    parser.add("folder", meta="FOLDER", help="Where a copy of the model is kept meanwhile (the "
               "folder for temporary files)")
    parser.add("threads", help="Threads of each server (its own choice)")
    parser.add("storms", int, 10, help="How many (10)")
    parser.add("minutes", int, 0,
               help="As many storms as fit into this time, over the service alone")
    parser.add("hurry", int, 1, help="All times of a storm divided by this (1)")
    parser.add("seed", int, 1, help="Makes other texts and another order (1)")
    parser.add("plot", meta="FILE", help="Write a plot (SVG)")
    parser.add("trace", meta="FILE",
               help="Write the readings beside the service, for llmsvc-bench pressure")
    parser.add("json-file", meta="FILE", help="Write the results as JSON, too")
    parser.add_flag("json", "One JSON object instead of tables")
    options = parser.parse_args(arguments)
    if not (options.daemon and options.model and 1 <= options.storms <= MAX_STORMS and
            0 <= options.minutes <= MAX_STORMS / 4 and 1 <= options.hurry <= 20) or \
            options.minutes > 0 and options.peer:
        parser.error("storm needs --daemon FILE, --model FILE and 1 to 1000 storms; --minutes is "
                     "without peers")
    return options


def main(arguments):
    if arguments[:1] == ["--eat"]:
        return eater.run_child(*arguments[1:])
    options = parse(arguments)
    if options.folder is not None:
        tempfile.tempdir = options.folder
    catch_signals()
    storms = None
    try:
        plan = make_plan(options)
        Group(plan.limit).close()
        with tempfile.TemporaryDirectory(prefix="llmsvc-bench-") as folder:
            # A fresh copy: pages belong to the group that reads them first.
            model = shutil.copyfile(options.model, pathlib.Path(folder, "model.gguf"))
            storms = Storms(options, plan, model)
            storms.run()
    except NoGroup as error:
        print("llmsvc-bench: no storms, as no control group with a limit on memory can be made "
              f"here: {error}", file=sys.stderr)
        return SKIPPED
    except (ModelError, ServerError, OSError) as error:
        if storms is not None and len(storms.results) > 1:
            storms.print()
        return fail(error)
    storms.print()
    return 0 if storms.is_kept() else 1
