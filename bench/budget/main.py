# SPDX-License-Identifier: LGPL-2.1-or-later
"""The memory budget is lowered while an answer is generated, and raised again: how soon the service's memory follows,
as the kernel counts it for a control group, and how long the tokens take. A third of the answer each: the budget, the
smaller one, the budget again. Before it the same answer with one budget, whose text it must be."""
import contextlib
import pathlib
import tempfile
import threading
import time

from lib import bus, figures, model
from lib.group import Group, NoGroup

MIB = 1 << 20
PROMPT = "Tell me a story about restaurants in San Jose please."
# Between looks at the group.
WATCH_S = 0.02
# Of the bytes that a change is about, those that may be missing when it counts as done.
SLACK = 0.05


class Watch(threading.Thread):
    """What the group holds, by time."""

    def __init__(self, group):
        super().__init__(daemon=True)
        self.group, self.trace, self.is_ended = group, [], threading.Event()

    def run(self):
        while not self.is_ended.wait(WATCH_S):
            self.trace.append((time.monotonic(), self.group.read()["usage"]))

    def end(self):
        self.is_ended.set()
        self.join()


def answer(connection, options, change):
    """The text, and when its tokens came. @change: called with how many have come, behind each."""
    more = {"draft": bus.option("s", "off")}
    if options.active:
        more["active"] = bus.option("u", options.active)
    # what would end the answer never comes
    stream = bus.Stream(connection, connection.create_context(), PROMPT,
                        {**bus.greedy(options.tokens, **more), **bus.make_bias(options.ends)})
    times = []
    with contextlib.closing(stream):
        while not stream.has_ended:
            n_lines = stream.n_lines
            stream.read_once()
            if stream.n_lines > n_lines:
                times.append(time.monotonic())
                change(len(times))
        if stream.failure:
            raise bus.CallError(stream.failure, stream.failure_text)
        return stream.text, times


def find_delay(trace, since, is_there):
    """Seconds from @since on until it is there; None if it never was."""
    return next((at - since for at, usage in trace if at >= since and is_there(usage)), None)


def sum_up(times, marks, trace):
    """@marks: when the budget was lowered and raised. Usage before each is what was steady."""
    lowered, raised = marks
    before = max(usage for at, usage in trace if at < lowered)
    small = [usage for at, usage in trace if lowered < at < raised]
    small = figures.median(small[len(small) // 2:])
    slack = SLACK * (before - small)
    gaps = [(b, b - a) for a, b in zip(times, times[1:])]
    # the token under way when the budget changed is of neither
    steady = figures.median([gap for at, gap in gaps if lowered < at - gap and at < raised])
    return {"before-mib": before / MIB, "small-mib": small / MIB,
            "down-s": find_delay(trace, lowered, lambda usage: usage <= small + slack),
            "up-s": find_delay(trace, raised, lambda usage: usage >= before - slack),
            "large-ms": 1000 * figures.median([gap for at, gap in gaps if at < lowered]),
            "small-ms": 1000 * steady,
            "slowest-ms": 1000 * max(gap for at, gap in gaps if at > lowered),
            "slowest-of-small": max(gap for at, gap in gaps if at > lowered) / steady}


def measure(options, group, cache):
    model.drop_cache(options.model, cache)
    config = f"[service]\nbudget={options.budget}M\n[model]\nprefill=exact\n"
    with contextlib.closing(bus.PrivateBus(options.daemon, options.model, config=config, cache=pathlib.Path(cache),
                                           groups=group.procs["server"])) as private:
        connection, other = private.connection, bus.Connection(private.address)
        marks = []

        def change(n_tokens):
            if n_tokens == (len(marks) + 1) * options.tokens // 3 and len(marks) < 2:
                marks.append(time.monotonic())
                size = (options.smaller if len(marks) == 1 else options.budget) * MIB
                other.call(bus.MEMORY, "SetBudget", "(a{sv})", {"bytes": bus.option("t", size)})
        text, _ = answer(connection, options, lambda n_tokens: None)
        watch = Watch(group)
        watch.start()
        try:
            changed, times = answer(connection, options, change)
        finally:
            watch.end()
    if len(marks) < 2:
        raise bus.CallError("Ended", f"the answer ended after {len(times)} tokens")
    return {**sum_up(times, marks, watch.trace), "same-text": changed == text}


def show(seconds):
    return "never" if seconds is None else f"{seconds:.2f} s"


def print_table(found):
    print("| | budget | smaller one | budget again |\n|---|---|---|---|")
    print(f"| held, MiB | {found['before-mib']:.0f} | {found['small-mib']:.0f} | |")
    print(f"| there after | | {show(found['down-s'])} | {show(found['up-s'])} |")
    print(f"| ms a token | {found['large-ms']:.0f} | {found['small-ms']:.0f} | |")
    print(f"\nslowest token behind a change: {found['slowest-ms']:.0f} ms, {found['slowest-of-small']:.2f} × those of the "
          f"smaller budget; the text is {'the same' if found['same-text'] else 'ANOTHER'}")


def main(arguments):
    parser = figures.Options("budget", __doc__)
    parser.add("daemon", meta="FILE", help="The llmsvcd to measure")
    parser.add("model", meta="FILE", help="A GGUF file that is larger than the budget")
    parser.add("budget", int, 2048, meta="MIB", help="Of the service (2048)")
    parser.add("smaller", int, 1024, meta="MIB", help="In the middle third (1024)")
    parser.add("tokens", int, 36, help="Of the answer (36)")
    parser.add("active", int, 0, meta="PERCENT", help="Weights that the answer leaves out (0)")
    parser.add("cache", meta="FOLDER", help="Of prepared copies; stays (one for this run)")
    parser.add_flag("json", "One JSON object")
    options = parser.parse_args(arguments)
    if options.daemon is None or options.model is None or options.tokens < 9 or \
            not 0 < options.smaller < options.budget:
        parser.error("--daemon FILE and --model FILE are needed, --tokens of 9 or more, --smaller below --budget")
    try:
        with model.Model(options.model) as known:
            options.ends = known.ends
        with contextlib.ExitStack() as stack:
            cache = options.cache or stack.enter_context(tempfile.TemporaryDirectory(
                dir=pathlib.Path(options.model).resolve().parent, prefix="llmsvc-bench-"))
            group = stack.enter_context(contextlib.closing(Group(4 * options.budget * MIB)))
            found = measure(options, group, cache)
    except (NoGroup, bus.CallError, model.ModelError, OSError) as error:
        return figures.fail(error)
    if options.json:
        figures.print_json(found)
    else:
        print_table(found)
    return 0 if found["same-text"] else 1
