# SPDX-License-Identifier: LGPL-2.1-or-later
"""Contexts of the real service while memory is asked for, a part at a time: which chunks go, which
lose bits, and what the kernel says of the process; then calm, and bits that come back.

Half of the contexts want their first token after --hurry, half when it comes; every fourth was made
with exact = true. The system has memory left: what the governor would ask for is asked for by
Trim("medium", target-bytes).

With --limit the service lives in a control group, and behind that another program takes what the
group has left: then classes of calls have smaller sub-models, one after the other, and the whole
model again when it lets go.
"""
import contextlib
import time

from lib import bus, process
from lib.figures import print_json
from lib.group import Group
from storm.eater import Eater

# What happened to chunks, since the start.
MARKS = ("evicted", "dropped", "narrowed", "widened", "restored", "written")
CLASSES = ("interactive", "responsive", "background")
SETTLE_S = 60
CALM_S = 30
# The service refuses more than ten trims in ten seconds.
PACE_S = 1.05
# Who takes memory has it after so long, takes what is left again and again for so long, and leaves a
# part of the group's limit: less than half of what the service wants to be left, so that pressure is
# critical.
GROW_S, HOLD_S = 0.5, 8
LEFT_PART = 25
# It looks calm for longer after each relapse.
BACK_S = 60


def read_kernel(pid):
    fields = process.read_fields(f"/proc/{pid}/smaps_rollup")
    return {"resident": fields["Rss"], "anonymous": fields["Anonymous"]}


def read_chunks(connection, contexts):
    """Chunks in memory by bits, and those that are on storage only, or only in the text."""
    chunks = {}
    for context in contexts:
        memory = connection.call(bus.CONTEXT, "GetMemory", "(a{sv})", bus.NONE, path=context)[0]
        for bits, place in zip(memory["bits"], memory["places"]):
            key = {"s": "storage", "t": "text"}.get(place, str(bits))
            chunks[key] = chunks.get(key, 0) + 1
    return chunks


def look(connection, pid, contexts, what, begun):
    """One line of the trace."""
    counted = connection.get_statistics()
    return {"s": time.monotonic() - begun, "what": what, **read_kernel(pid),
            "chunks": read_chunks(connection, contexts),
            **{mark: counted[f"kv-{mark}-chunks"] for mark in MARKS},
            "narrow": counted["kv-narrow-chunks"], "held": counted["held-sub-model"]}


def look_at_levels(connection, pid, contexts, what, begun):
    """The same, with the sub-model that answers a new call of each class."""
    answered = {}
    for slo in CLASSES:
        results = connection.call(bus.SERVICE, "Complete", "(sa{sv})", "Hello",
                                  bus.greedy(1, slo=bus.option("s", slo)))[1]
        answered[slo] = results["sub-model"]
    return look(connection, pid, contexts, what, begun) | {"levels": answered}


def is_settled(connection, contexts):
    """All but the last chunks are packed, and written where they are."""
    for context in contexts:
        memory = connection.call(bus.CONTEXT, "GetMemory", "(a{sv})", bus.NONE, path=context)[0]
        if len(set(memory["places"][:-1])) > 1 or max(memory["bits"][:-1]) > 8:
            return False
    return True


def wait_for(condition, seconds):
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.1)


def climb(connection, pid, contexts, options, before, begun):
    """Asks until nothing comes any more. What is only kept for others to share goes first: until
    chunks of the contexts follow, nothing is counted."""
    trace = []
    n_counted = 0
    while True:
        time.sleep(PACE_S)
        freed = connection.call(
            bus.MEMORY, "Trim", "(sa{sv})", "medium",
            {"target-bytes": bus.option("t", options.step * 1024)})[0]["freed"]
        trace.append(look(connection, pid, contexts, "asked", begun))
        n_counted += any(trace[-1][mark] > before[mark] for mark in ("evicted", "narrowed"))
        left = trace[-1]["chunks"]
        if freed == 0 or not any(left.get(bits) for bits in ("8", "4", "3", "2", "16")) \
                or n_counted >= options.steps:
            return trace


def squeeze(connection, pid, contexts, limit, group, eater, begun):
    """Another program takes what is left of the group's @limit, and lets go."""
    trace = []
    level = 0
    until = time.monotonic() + HOLD_S
    while time.monotonic() < until:
        used = group.read()
        level = max(level + limit - limit // LEFT_PART - used["usage"] + used["cache"], 0)
        eater.set_level(level)
        time.sleep(PACE_S)
        trace.append(look_at_levels(connection, pid, contexts, "squeezed", begun))
    eater.set_level(0)
    until = time.monotonic() + BACK_S
    while time.monotonic() < until:
        time.sleep(PACE_S)
        trace.append(look_at_levels(connection, pid, contexts, "let go", begun))
        if min(trace[-1]["levels"].values()) == 100:
            break
    return trace


def run(options, make_prompt):
    with contextlib.ExitStack() as stack:
        group = None
        if options.limit:
            group = Group(options.limit * process.MIB)
            stack.callback(group.close)
        trace = trace_all(options, make_prompt, group, stack)
    print_trace(trace, options.json)


def trace_all(options, make_prompt, group, stack):
    # The copy for prompts in 8 bits goes first each time, and comes back at once.
    config = "[model]\nprefill=exact\n"
    config += "[contexts]\ndisk=off\n" if options.no_storage else ""
    if options.least_quality is not None:
        config += "[quality]\n" + "".join(f"{slo}={options.least_quality}\n" for slo in CLASSES)
    private = bus.PrivateBus(options.daemon, options.model, config,
                             groups=group.procs["server"] if group else ())
    connection = private.connection
    try:
        contexts = []
        for i in range(options.contexts):
            made = {"exact": bus.option("b", True)} if i % 4 == 3 else bus.NONE
            contexts.append(connection.call(bus.SERVICE, "CreateContext", "(a{sv})", made)[0])
            hurry = {"ttft-ms": bus.option("u", options.hurry)} if i % 2 else {}
            connection.call(bus.CONTEXT, "Ask", "(sa{sv})", make_prompt(options.words, i),
                            bus.greedy(2, **hurry), path=contexts[-1])
        wait_for(lambda: is_settled(connection, contexts), SETTLE_S)
        if not options.no_storage:
            # it measures what storage takes while no call runs: until then all comes back in time
            wait_for(lambda: any(private.folder.glob("cache/profile-*")), SETTLE_S)
        pid = private.find_daemon()
        begun = time.monotonic()
        trace = [look(connection, pid, contexts, "before", begun)]
        trace += climb(connection, pid, contexts, options, trace[0], begun)
        wait_for(lambda: connection.get_statistics()["kv-narrow-chunks"] == 0, CALM_S)
        trace.append(look(connection, pid, contexts, "calm", begun))
        if group:
            limit = options.limit * process.MIB
            eater = Eater(group, limit, private.folder / "eaten", process.MIB, GROW_S)
            stack.callback(eater.close)
            trace += squeeze(connection, pid, contexts, limit, group, eater, begun)
        return trace
    finally:
        private.close()


def print_trace(trace, is_json):
    if is_json:
        print_json(trace)
        return
    print(f"{'s':>6} {'':8} {'resident':>9} {'anonymous':>9}  "
          + " ".join(f"{mark:>8}" for mark in (*MARKS, "narrow")) + "   held  chunks")
    for line in trace:
        chunks = ", ".join(f"{n} of {key}" for key, n in sorted(line["chunks"].items()))
        levels = "".join(f"; {name} {level} %" for name, level in line.get("levels", {}).items())
        print(f"{line['s']:6.1f} {line['what']:8} {line['resident'] / process.MIB:9.1f} "
              f"{line['anonymous'] / process.MIB:9.1f}  "
              + " ".join(f"{line[mark]:8}" for mark in (*MARKS, "narrow"))
              + f"  {line['held']:3} %  {chunks}{levels}")
