# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a soak says at its end, and whether all was as it should be."""
from lib.figures import median, print_json, write_json
from soak.watch import HELD, sum_up

# What is held at rest may differ so much between the second and the last quarter.
MAX_CHANGE = 0.02
# Of things that are counted so many may come and go: GLib keeps up to two threads of its pool for a
# while, and has a descriptor open now and then.
MAX_COUNT_CHANGE = 2
# The slowest of a thousand property reads, in ms.
MAX_READ_MS = 50
# Calls at rest are none; the state folder follows the texts, and files that SQLite and the file
# system make larger or smaller by steps.
MAY_CHANGE = {"calls", "state folder"}


def get_change(samples, held, seconds):
    """Medians of the second quarter and of the last."""
    return tuple(median([sample[held] for sample in samples if begin <= sample["seconds"] < end])
                 for begin, end in ((seconds / 4, seconds / 2), (seconds * 3 / 4, seconds + 1)))


def get_growth(early, late):
    """0.01 for one percent more."""
    return late / early - 1 if early > 0 else 0


def is_flat(early, late, held):
    return early > 0 and late > 0 and (
        abs(get_growth(early, late)) <= MAX_CHANGE or
        HELD[held] == "" and abs(late - early) <= MAX_COUNT_CHANGE)


def find_growing(data):
    """What was not flat at rest. Of what is not known nothing can be said."""
    at_rest = data["at-rest"]
    changes = {held: (at_rest[held]["second-quarter"], at_rest[held]["last-quarter"])
               for held in HELD if held not in MAY_CHANGE}
    return [held for held, (early, late) in changes.items()
            if early > 0 and not is_flat(early, late, held)]


def is_good(data):
    reads = data["property-reads"]
    return (not find_growing(data) and data["wrong"] == 0 and reads["n"] > 0 and
            reads["p99.9-ms"] <= MAX_READ_MS)


def describe(samples, seconds):
    """Samples by what is held, with the medians of both quarters."""
    result = {"seconds": [sample["seconds"] for sample in samples]}
    for held, unit in HELD.items():
        early, late = get_change(samples, held, seconds)
        result[held] = {"unit": unit, "second-quarter": early, "last-quarter": late,
                        "samples": [sample[held] for sample in samples]}
    return result


def make_data(soak):
    load, options = soak.load, soak.options
    seconds = soak.end_s - soak.begin_s
    probed = [sum_up(soak.probes, soak.begin_s + seconds / 4, soak.end_s, soak.pauses, of_bus)
              for of_bus in (False, True)]
    return {
        "settings": {"minutes": seconds / 60, "apps": options.apps,
                     "contexts": options.apps * load.n_contexts, "think-ms": options.think,
                     "tokens": options.tokens, "seed": options.seed},
        "calls": load.counts, "refused": load.n_refused, "callers-killed": soak.n_killed,
        "at-rest": describe(soak.at_rest, seconds),
        "under-load": describe(soak.under_load, seconds),
        "property-reads": probed[0], "bus-reads": probed[1], "turns": load.n_turns,
        "compared-at-end": soak.n_compared_at_end,
        "compared-after-kill": soak.n_compared_after_kill,
        "compared-after-end": soak.n_compared_after_end, "wrong": load.n_complaints,
        "complaints": load.complaints,
    }


def print_changes(data, key, title, is_judged):
    flat_title, flat_line = (" flat |", "---|") if is_judged else ("", "")
    print(f"\n| {title} | second quarter | last quarter | change |{flat_title}\n"
          f"|---|---|---|---|{flat_line}")
    for held, unit in HELD.items():
        figures = data[key][held]
        early, late = figures["second-quarter"], figures["last-quarter"]
        unit = unit and " " + unit
        flat = "" if held in MAY_CHANGE else "yes" if is_flat(early, late, held) else "NO"
        print(f"| {held} | {early:.6g}{unit} | {late:.6g}{unit} | "
              f"{100 * get_growth(early, late):+.2f} % |{f' {flat} |' if is_judged else ''}")


def print_tables(data):
    print("| calls | |\n|---|---|")
    for name, n in {**data["calls"], "all": sum(data["calls"].values()),
                    "refused": data["refused"], "callers killed": data["callers-killed"]}.items():
        print(f"| {name} | {n} |")
    print_changes(data, "at-rest", "at rest", True)
    print_changes(data, "under-load", "under load", False)
    print("\n| reads by another process, ms | p50 | p99 | p99.9 | most | n |\n"
          "|---|---|---|---|---|---|")
    for name, key in (("a property of the service", "property-reads"),
                      ("a question to the bus itself", "bus-reads")):
        *times, n = data[key].values()
        print(f"| {name} | {' | '.join(f'{time:.2f}' for time in times)} | {n} |")
    print("\n| turns | |\n|---|---|")
    for name, key in (("acknowledged", "turns"),
                      ("contexts compared at the end", "compared-at-end"),
                      ("after SIGKILL in the middle of the load", "compared-after-kill"),
                      ("after SIGTERM", "compared-after-end"),
                      ("lost, changed, or otherwise wrong", "wrong")):
        print(f"| {name} | {data[key]} |")
    for complaint in data["complaints"]:
        print(f"- {complaint}")


def report(soak):
    """Whether all was as it should be."""
    data = make_data(soak)
    options = soak.options
    if options.json_file is not None:
        write_json(data, options.json_file)
    if options.json:
        print_json(data)
    else:
        print_tables(data)
        print(f"\n{'All is as it should be.' if is_good(data) else 'NOT as it should be.'}")
    if options.plots is not None:
        import plots
        plots.draw_into("soak", data, options.plots)
    return is_good(data)
