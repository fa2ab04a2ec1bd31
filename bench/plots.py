#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Plots of what the benchmarks measured, from their JSON files, with Matplotlib.

    python3 bench/plots.py contexts|drafts|pressure|roofline|slo|soak|storm JSON… OUT.svg

One picture with a panel for each trace, class or the like. The same JSON gives the same file. A roofline
is one panel of all JSON files of `llmsvc-bench model`, one for each length of the prompt.
"""
import io
import json
import pathlib
import re
import sys

try:
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot
except ImportError:
    sys.exit("llmsvc-bench: plots need Matplotlib (python3-matplotlib)")

# Told apart by people who see few colours, too (Okabe and Ito), and by their dashes.
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"]
DASHES = ["-", "--", ":", "-."]
# Points of one line: more than can be told apart.
MAX_POINTS = 240
# Lines with fewer have marks at their points.
MAX_MARKS = 20
# Of a panel, and its margins: left, right, top, bottom.
PANEL_INCHES = (7.5, 3)
MARGINS = (0.75, 1.75, 0.35, 0.55)
LEAD_S = 10
STYLE = {
    "svg.fonttype": "none", "svg.hashsalt": "llmsvc", "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"], "font.size": 9, "axes.grid": True, "grid.color": "#dddddd",
    "axes.titlesize": 10, "axes.titlelocation": "left", "axes.spines.top": False,
    "axes.spines.right": False, "path.simplify_threshold": 0.5, "xtick.minor.size": 0,
    "ytick.minor.size": 0, "axes.formatter.useoffset": False,
}


class Panel:
    """title, and names of the axes. lines: (name, x, y). limits: of a linear axis upwards, None for
    a logarithmic one. marks: (name, value) of lines across. is_log_log: also that to the
    right, by powers of two."""

    def __init__(self, title, x_title, y_title, lines, limits=None, marks=(), is_log_log=False):
        self.title, self.x_title, self.y_title = title, x_title, y_title
        self.lines, self.limits, self.marks = lines, limits, marks
        self.is_log_log = is_log_log


def thin(x, y):
    """Both extremes of each part of a line that has more points than can be told apart."""
    n_parts = MAX_POINTS // 2
    if len(x) <= MAX_POINTS:
        return x, y
    kept = []
    for part in range(n_parts):
        ids = range(len(x) * part // n_parts, len(x) * (part + 1) // n_parts)
        kept += sorted({min(ids, key=y.__getitem__), max(ids, key=y.__getitem__)})
    return [x[i] for i in kept], [y[i] for i in kept]


def draw_panel(axes, panel):
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x_title)
    axes.set_ylabel(panel.y_title)
    for i, (name, x, y) in enumerate(panel.lines):
        points = [(a, b) for a, b in zip(x, y) if panel.limits is not None or b > 0]
        x, y = thin(*map(list, zip(*points))) if points else ([], [])
        axes.plot(x, y, DASHES[(i + i // len(COLOURS)) % len(DASHES)],
                  color=COLOURS[i % len(COLOURS)], label=name,
                  marker="o" if len(x) <= MAX_MARKS else None, markersize=4, linewidth=1.5)
    for name, value in panel.marks:
        axes.axhline(value, color="#888888", linestyle="--", linewidth=1, label=name)
    if panel.is_log_log:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
    if panel.limits is None:
        axes.set_yscale("log", base=2 if panel.is_log_log else 10)
        axes.yaxis.set_major_formatter("{x:g}")
    else:
        axes.set_ylim(panel.limits[0], panel.limits[1])
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)


# --- the kinds: panels of JSON ---

def make_pressure(data):
    names = ("others", "budget", "contexts", "weights in memory")
    for trace, played in data.items():
        seconds, *values = list(zip(*played["moments"]))[:len(names) + 1]
        yield Panel(trace, "seconds", "GiB", [(name, seconds, y) for name, y in zip(names, values)],
                    (0, played["bound-gib"]))


def make_soak(data):
    samples = data["at-rest"]
    minutes = [seconds / 60 for seconds in samples["seconds"]]
    for unit, held in (("MiB", ("resident", "not backed by files", "heap in use", "state folder")),
                       ("number", ("descriptors", "threads", "contexts", "applications"))):
        yield Panel("What the service holds, at rest", "minutes", unit,
                    [(name, minutes, samples[name]["samples"]) for name in held])


def make_slo(data):
    policies = {}
    for result in data["results"]:
        policies.setdefault(result["policy"], []).append(result)
    for name, law in data["classes"].items():
        targets = (f"first token in {law['ttft-ms'] / 1000:.0f} s, further ones in "
                   f"{law['tpot-ms']:.0f} ms each" if law["ttft-ms"] > 0 else "answered")
        lines = [(policy, [result["load"] for result in results],
                  [result["classes"][name]["met-percent"] for result in results])
                 for policy, results in policies.items()]
        yield Panel(f"{name.capitalize()}: {targets}", "load, share of the capacity", "calls, %",
                    lines, (0, 105))


def make_contexts(data):
    """Cells of the grid come first; sweeps and searches add others, not for all policies."""
    plots = {}
    for cell in data["cells"]:
        key = (cell["shape"], cell["device"], cell["pattern"], round(100 * cell["budget-share"]))
        waits = plots.setdefault(key, {}).setdefault(cell["policy"], {})
        waits.setdefault(cell["contexts"], cell["wait"]["mean-ms"])
    for (shape, device, pattern, share), policies in plots.items():
        numbers = sorted(set.intersection(*map(set, policies.values())))
        if len(numbers) > 1:
            yield Panel(f"{shape}, {device}, {pattern}, budget {share} %", "contexts",
                        "switching latency, ms (mean)",
                        [(policy, numbers, [waits[n] for n in numbers])
                         for policy, waits in policies.items()])


def make_storm(data):
    speeds, stalls = [], []
    for run in data["runs"]:
        begin = run["storms"][0]["begin-s"] if run["storms"] else 0
        moments = [moment for moment in run["moments"] if moment[0] >= begin - LEAD_S]
        seconds, server, eater, group, tokens, waited = list(zip(*moments)) or [()] * 6
        seconds = [at - begin for at in seconds]
        if seconds:
            first = next((ms for at, ms in zip(seconds, waited) if at >= 0), waited[-1])
            stalls.append((run["beside"], seconds, [max(ms - first, 0) / 1000 for ms in waited]))
            # Over a second.
            speed = [0.0] * len(seconds)
            before = 0
            for i, at in enumerate(seconds):
                while at - seconds[before] > 1 and before < i - 1:
                    before += 1
                if i > before:
                    speed[i] = (tokens[i] - tokens[before]) / (at - seconds[before])
            speeds.append((run["beside"], seconds, speed))
        limit = data["limit-bytes"] / (1 << 20)
        yield Panel(f"{run['beside']}: memory", "seconds", "MiB",
                    [("the server", seconds, server), ("the eater", seconds, eater),
                     ("the group", seconds, group)], (0, limit * 1.05), [("limit", limit)])
    yield Panel("Speed", "seconds", "tokens per second", speeds, (0, None))
    yield Panel("What the eater waited for memory so far", "seconds", "seconds", stalls, (0, None))


def make_drafts(data):
    """Chains by their length, all others as lines across, of other programs the fastest chain; and
    where the same prompts were measured with several budgets, methods by budget."""
    groups, budgets = {}, {}
    for cell in data["cells"]:
        where = f"{cell['limit-mib']} MiB" if cell["limit-mib"] else "all in memory"
        title = f"{cell['model']}, {where}, {cell['task']}"
        groups.setdefault((title, cell["draft"]), []).append(cell)
        if cell["limit-mib"]:
            of_task = budgets.setdefault((cell["model"], cell["task"], cell["draft"],
                                          cell["prompts"]), {})
            of_task.setdefault(cell["method"], {})[cell["limit-mib"]] = cell["ms-per-token"]
    for (title, draft), cells in groups.items():
        chain = sorted((int(cell["method"].split(":")[1]), cell["ms-per-token"])
                       for cell in cells if cell["method"].startswith("chain:"))
        if len(chain) < 2:
            continue
        lengths = [k for k, _ in chain]
        lines = [("chain", lengths, [ms for _, ms in chain])]
        peers = [cell for cell in cells if " chain:" in cell["method"]]
        shown = [cell for cell in cells if "chain:" not in cell["method"]]
        if peers:
            shown.append(min(peers, key=lambda cell: cell["ms-per-token"]))
        lines += [(cell["method"], [lengths[0], lengths[-1]], [cell["ms-per-token"]] * 2)
                  for cell in shown]
        most = max(y for _, _, values in lines for y in values)
        yield Panel(f"{title}, draft {draft}", "guesses of a chain", "ms a token", lines,
                    (0, 1.05 * most))
    for (model, task, draft, _), methods in budgets.items():
        lines = [(method, sorted(ms), [ms[limit] for limit in sorted(ms)])
                 for method, ms in methods.items() if len(ms) > 1]
        if lines:
            most = max(y for _, _, values in lines for y in values)
            yield Panel(f"{model}, {task}, draft {draft}", "memory of the group, MiB",
                        "ms a token", lines, (0, 1.05 * most))


def make_roofline(runs):
    """What memory and the processor allow, and what prompts of several lengths reach. A prompt reads the
    weights once, so its operations for a byte are its tokens, but for the attention."""
    engines = {}
    for run in runs:
        for result in run["results"]:
            if not result["test"].startswith("prompt"):
                continue
            speed = result["gigaops-per-second"]["median"]
            points = engines.setdefault(result["engine"].removeprefix("llmsvc, "), [])
            points.append((speed / result["gigabytes-per-second"]["median"], speed))
    read = max(run["limits"]["read"]["median"] for run in runs)
    compute = max(run["limits"]["compute"]["median"] for run in runs)
    most = max(x for points in engines.values() for x, _ in points)
    corner = compute / read
    roof = [(corner / 4, compute / 4), (corner, compute), (max(most, 2 * corner), compute)]
    lines = [(name, *map(list, zip(*sorted(points))))
             for name, points in [("limit", roof), *engines.items()]]
    yield Panel(f"{runs[0]['model']['file']}: {read:.0f} GB/s, {compute:.0f} Gop/s "
                f"({runs[0]['limits']['compute-instruction']})",
                "operations for a byte of the weights", "Gop/s", lines, is_log_log=True)


KINDS = {"contexts": make_contexts, "drafts": make_drafts, "pressure": make_pressure,
         "roofline": make_roofline, "slo": make_slo, "soak": make_soak, "storm": make_storm}
# One picture of all files together.
GATHERED = {"roofline"}


def draw(kind, all_data, path):
    if kind in GATHERED:
        all_data = [all_data]
    panels = [panel for data in all_data for panel in KINDS[kind](data)]
    if not panels:
        sys.exit(f"llmsvc-bench: the JSON has nothing that a plot of {kind} shows")
    width, height = PANEL_INCHES
    left, right, top, bottom = MARGINS
    text = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure = pyplot.figure(figsize=(width, height * len(panels)))
        for i, panel in enumerate(reversed(panels)):
            draw_panel(figure.add_axes([left / width, (i + bottom / height) / len(panels),
                                        1 - (left + right) / width,
                                        (1 - (top + bottom) / height) / len(panels)]), panel)
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    # A tenth of a point is more than can be seen.
    pathlib.Path(path).write_text(re.sub(
        r' (d|x|y|transform)="[^"]*"', lambda match: re.sub(r"(\.\d)\d+", r"\1", match[0]),
        text.getvalue()), encoding="utf-8")


def draw_into(kind, data, folder):
    """FOLDER/KIND.svg; the folder is made."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    draw(kind, [data], folder / f"{kind}.svg")


def main(arguments):
    if len(arguments) < 3 or arguments[0] not in KINDS:
        print(f"Usage: plots.py {'|'.join(KINDS)} JSON… OUT.svg", file=sys.stderr)
        return 2
    kind, *sources, out = arguments
    draw(kind, [json.loads(pathlib.Path(source).read_text()) for source in sources], out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
