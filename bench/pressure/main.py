# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the policy of memory does under pressure, by traces; and what giving all back takes, by the
real service.

A trace is text; "#" begins a comment. Lines "NAME NUMBER" describe machine and service:
machine-mib, group-mib (0: none), budget-mib (0: three quarters), model-mib, contexts-mib (what it
would hold), overhead-mib, growth-mib (a second), busy (0 or 1). In a made-up trace lines
"SECONDS MIB" follow, what others hold at that time and, in between, on the way to the next. In a
recorded one, which says so by "recorded 1", each line is a reading: time in ms, stalls of all tasks
(some, full) and of the own group (some, full) in µs since the start, then bytes: available, total,
the group's limit, usage, cache.
"""
import pathlib
import subprocess
import sys
import time

from lib import bus, process
from lib.figures import Figures, Options, fail, print_json
from lib.group import NoGroup
from lib.model import find_bench
from pressure import ladder

NAMES = {"machine-mib", "group-mib", "budget-mib", "model-mib", "contexts-mib", "overhead-mib",
         "growth-mib", "busy", "recorded"}
N_RECORDED, N_MADE_UP = 10, 2
HEAD = ("trace", "GiB", "least", "given", "cuts", "relapses", "calm s", "stall s", "without",
        "killed", "without")
# How long a prompt is read before a trim.
BEGIN_S = 1.5
CONTEXT_WORDS = 25


class TraceError(Exception):
    pass


# --- traces ---

def parse_number(text):
    """None when it is none of bytes or time."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < 1e18 else None


def read_trace(path):
    """Its lines without comments, checked."""
    lines, rows, is_recorded = [], [], False
    for number, line in enumerate(pathlib.Path(path).read_text().split("\n"), 1):
        fields = line.partition("#")[0].split()
        numbers = [parse_number(field) for field in fields]
        if not fields:
            continue
        if not fields[0][0].isalpha():
            if len(fields) != (N_RECORDED if is_recorded else N_MADE_UP):
                raise TraceError(f"{path}:{number}: a line of this trace has another number of "
                                 "columns")
            if None in numbers:
                raise TraceError(f"{path}:{number}: that is no number of bytes or time")
            if rows and numbers[0] <= rows[-1]:
                raise TraceError(f"{path}:{number}: time does not go on")
            rows.append(numbers[0])
        elif len(fields) != 2 or numbers[1] is None or rows or fields[0] not in NAMES:
            raise TraceError(f"{path}:{number}: that is no description of a machine or service")
        elif fields[0] == "recorded":
            is_recorded = numbers[1] > 0
        lines.append(" ".join(fields))
    if len(rows) < 2:
        raise TraceError(f"{path}:1: a trace needs two lines at least")
    return lines


def play(lines, is_deaf):
    """Figures by name, and "moments". is_deaf: beside a service that gives nothing."""
    text = "\n".join([f"deaf {int(is_deaf)}", *lines])
    output = subprocess.run([find_bench(), "pressure-play"], input=text, text=True, check=True,
                            stdout=subprocess.PIPE).stdout
    played = {"moments": []}
    for words in map(str.split, output.splitlines()):
        if len(words) == 2:
            played[words[0]] = float(words[1])
        else:
            played["moments"].append([*map(float, words[:-1]), int(words[-1])])
    return played


def play_both(path):
    """As the JSON has it."""
    lines = read_trace(path)
    played, deaf = play(lines, False), play(lines, True)
    moments = played.pop("moments")
    return {**played, "least-budget-gib": min(moment[2] for moment in moments),
            "others-stalled-without-s": deaf["others-stalled-s"],
            "killed-without": deaf["killed"], "moments": moments}


def print_row(name, figures):
    counts = [f"{figures[key]:.0f}" for key in ("cuts", "relapses", "killed", "killed-without")]
    print(f"{name:15} {figures['bound-gib']:6.2f} {figures['least-budget-gib']:8.2f} "
          f"{figures['given-gib']:8.2f} {counts[0]:>5} {counts[1]:>8} "
          f"{figures['calm-period-s']:7.0f} {figures['others-stalled-s']:8.2f} "
          f"{figures['others-stalled-without-s']:8.2f} {counts[2]:>7} {counts[3]:>7}")


def play_all(options):
    data = {}
    if not options.json:
        widths = (-15, 6, 8, 8, 5, 8, 7, 8, 8, 7, 7)
        print(" ".join(f"{word:{'<' if width < 0 else '>'}{abs(width)}}"
                       for word, width in zip(HEAD, widths)))
    for path in options.traces:
        name = pathlib.Path(path).stem
        data[name] = play_both(path)
        if not options.json:
            print_row(name, data[name])
    if options.json:
        print_json(data)
    if options.plots is not None:
        import plots
        plots.draw_into("pressure", data, options.plots)


# --- Trim of the real service ---

def make_prompt(n_words, seed):
    """Different words each time, so that nothing of it is known yet."""
    return "".join(f"{chr(97 + (i + seed) % 26)}{chr(97 + seed % 26)}{i * 7 % 100} "
                   for i in range(n_words))


def read_memory(pid):
    fields = process.read_fields(f"/proc/{pid}/smaps_rollup")
    return {"resident": fields["Rss"] / process.MIB, "anonymous": fields["Anonymous"] / process.MIB}


def trim(connection, pid, figures):
    before = read_memory(pid)
    begin = time.monotonic()
    results = connection.call(bus.MEMORY, "Trim", "(sa{sv})", "critical", bus.NONE)[0]
    figures.add("reply", "ms", (time.monotonic() - begin) * 1000)
    after = read_memory(pid)
    for what in before:
        figures.add(f"{what} before", "MiB", before[what])
        figures.add(f"{what} after", "MiB", after[what])
    figures.add("freed, as it says", "MiB", results["freed"] / process.MIB)


def measure_trims(options):
    """What Trim("critical") takes while a long prompt is read, and what comes free: by what the
    kernel says of the service to this process."""
    figures = Figures()
    private = bus.PrivateBus(options.daemon, options.model)
    connection = private.connection
    all_ended = True
    try:
        contexts = [connection.create_context() for _ in range(options.contexts)]
        for run in range(options.runs):
            for i, context in enumerate(contexts):
                text = make_prompt(CONTEXT_WORDS, run * len(contexts) + i)
                connection.call(bus.CONTEXT, "Ask", "(sa{sv})", text, bus.greedy(2), path=context)
            stream = bus.Stream(connection, connection.create_context(),
                                make_prompt(options.words, 1000 + run), bus.greedy(4))
            time.sleep(BEGIN_S)
            trim(connection, private.find_daemon(), figures)
            trimmed = time.monotonic()
            stream.read()
            all_ended = all_ended and stream.results is not None
            figures.add("rest of the answer", "s", time.monotonic() - trimmed)
    finally:
        private.close()
    figures.print(options.json)
    if not all_ended:
        print("An answer did not come to its end", file=sys.stderr)
    return all_ended


def main(arguments):
    parser = Options("pressure", "Memory given back under pressure.")
    parser.add("plots", meta="FOLDER", help="Write a plot of the traces there")
    parser.add_flag("trim", "Time Trim(\"critical\") of the real service instead")
    parser.add_flag("ladder", "Trace chunks of the real service while memory is asked for instead")
    parser.add("daemon", meta="FILE", help="The llmsvcd to measure, with --trim and --ladder")
    parser.add("model", meta="FILE", help="Its GGUF file")
    parser.add("contexts", int, 16, help="Contexts that it holds (16)")
    parser.add("words", int, 250, help="Words of the prompt that it reads meanwhile (250)")
    parser.add("runs", int, 5, help="Trims (5)")
    parser.add("step", int, 256, meta="KIB", help="Asked for at once, with --ladder (256)")
    parser.add("steps", int, 100, help="So often at most, once chunks go (100)")
    parser.add("hurry", int, 50, meta="MS", help="What half of the contexts want as their time to "
               "the first token (50)")
    parser.add("limit", int, 0, meta="MIB", help="With --ladder: the service lives in a control "
               "group of so many MiB, whose rest another program takes then: sub-models")
    parser.add("least-quality", int, None, meta="PERCENT", help="With --ladder: what sub-models "
               "have to be worth (as the service's configuration has it)")
    parser.add_flag("no-storage", "With --ladder: nothing is written")
    parser.add_flag("json", "One JSON object")
    parser.add_argument("traces", metavar="TRACE", nargs="*")
    options = parser.parse_args(arguments)
    is_real = options.trim or options.ladder
    if not (options.daemon and options.model if is_real else options.traces):
        parser.error("pressure needs traces, or --trim or --ladder with --daemon and --model")
    if not (0 <= options.contexts <= 1000 and 0 < options.words <= 100000 and
            0 < options.runs <= 1000 and 0 < options.step <= 1 << 20 and 0 < options.steps <= 1000
            and 0 < options.hurry <= 10000
            and (options.limit == 0 or options.ladder and 64 <= options.limit <= 1 << 20)):
        parser.error("numbers that are not within reason")
    try:
        if options.ladder:
            ladder.run(options, make_prompt)
            return 0
        if options.trim:
            return 0 if measure_trims(options) else 1
        play_all(options)
        return 0
    except NoGroup as error:
        return fail(f"--limit needs a control group with a limit on memory: {error}")
    except (TraceError, OSError, bus.CallError) as error:
        return fail(error)
