# SPDX-License-Identifier: LGPL-2.1-or-later
"""What answers come to: time per token by method, beside plain decoding of the same prompts."""
import re
import statistics

from lib import figures

DECODED = re.compile(r"decoded +(\d+) tokens in +([\d.]+) seconds")
COUNTS = {"drafted": re.compile(r"n_drafted *= *(\d+)"),
          "accepted": re.compile(r"n_accept *= *(\d+)")}
CELL = ("model", "limit-mib", "disk-mb", "iops", "task", "most-tokens", "draft")
# What gives another text than plain decoding by its nature.
LOSSY = ("active", "target", "big-little")


def read_peer(text):
    """What llama-speculative-simple says of its answer; None where it does not. As with an answer
    of one's own, tokens count from the first one on."""
    match = DECODED.search(text)
    if match is None:
        return None
    found = {"tokens": int(match[1]) + 1, "seconds": float(match[2])}
    for name, pattern in COUNTS.items():
        number = pattern.search(text)
        found[name] = int(number[1]) if number else 0
    if found["drafted"]:
        found["passes"] = found["tokens"] - 1 - found["accepted"]
    return found


def name_kind(method):
    return method.split(":")[0]


def sum_up(answers):
    """Of one method's answers: medians over the runs of each prompt."""
    prompts = {}
    for answer in answers:
        prompts.setdefault(answer["id"], []).append(answer)
    return {prompt: {"seconds": figures.median([answer["seconds"] for answer in same]),
                     "tokens": same[0]["tokens"] - 1, "text": same[0].get("text"),
                     "passes": figures.median([answer.get("passes", 0) for answer in same]),
                     "drafted": figures.median([answer.get("drafted", 0) for answer in same]),
                     "accepted": figures.median([answer.get("accepted", 0) for answer in same]),
                     "read": figures.median([answer["read"] for answer in same])
                             if all("read" in answer for answer in same) else None,
                     "active": figures.median([answer.get("active", 0) for answer in same]),
                     "texts": {answer.get("text") for answer in same}, "n": len(same)}
            for prompt, same in prompts.items() if same[0]["tokens"] > 1}


def make_cell(key, method, mine, plain):
    """Prompts that both answered are compared, by time per token, and summed over them."""
    both = [prompt for prompt in mine if prompt in plain]
    seconds = sum(one["seconds"] for one in mine.values())
    tokens = sum(one["tokens"] for one in mine.values())
    passes = sum(one["passes"] for one in mine.values())
    cell = {**dict(zip(CELL, key)), "method": method, "prompts": len(mine), "tokens": tokens,
            "runs": sum(one["n"] for one in mine.values()),
            "ms-per-token": 1000 * seconds / tokens,
            "mb-per-token": None,
            "tokens-per-pass": tokens / passes if passes else None,
            "accepted-share": None, "times-plain": None, "least-times-plain": None,
            "of-tokens-per-pass": None, "same-text": None,
            "active": figures.median([one["active"] for one in mine.values()])}
    if all(one["read"] is not None for one in mine.values()):
        cell["mb-per-token"] = sum(one["read"] for one in mine.values()) / tokens / 1e6
    drafted = sum(one["drafted"] for one in mine.values())
    if drafted:
        cell["accepted-share"] = sum(one["accepted"] for one in mine.values()) / drafted
    if not both:
        return cell

    def rate(answers, ids):
        return sum(answers[i]["tokens"] for i in ids) / sum(answers[i]["seconds"] for i in ids)

    cell["times-plain"] = rate(mine, both) / rate(plain, both)
    cell["least-times-plain"] = min(rate(mine, [i]) / rate(plain, [i]) for i in both)
    if cell["tokens-per-pass"]:
        cell["of-tokens-per-pass"] = cell["times-plain"] / cell["tokens-per-pass"]
    if all(mine[i]["text"] is not None for i in both):
        cell["same-text"] = sum(mine[i]["texts"] == {plain[i]["text"]} for i in both) / len(both)
    return cell


def make_cells(answers):
    """One for each model, budget, task, draft and method, in the order in which they came."""
    cells, groups = [], {}
    for answer in answers:
        key = tuple(answer.get(name) for name in CELL)
        groups.setdefault(key, {}).setdefault(answer["method"], []).append(answer)
    for key, methods in groups.items():
        sums = {method: sum_up(same) for method, same in methods.items()}
        plain = sums.get("plain")
        if plain is None:
            # a draft changes nothing of it: of the same model, budget, task and length with another
            # one
            plain = next((sum_up(other["plain"]) for name, other in groups.items()
                          if name[:-1] == key[:-1] and "plain" in other), {})
        for method, mine in sums.items():
            if mine:
                cell = make_cell(key, method, mine, plain)
                peaks = [answer["peak-mib"] for answer in methods[method] if "peak-mib" in answer]
                if peaks:
                    cell["peak-mib"] = max(peaks)
                forecasts = [answer["forecast-ms"] for answer in methods[method]
                             if "forecast-ms" in answer]
                cell["forecast-ms"] = statistics.median(forecasts) if forecasts else None
                cells.append(cell)
    return cells


def name_set(cell):
    """Cells of as many prompts, of one model, budget, task and draft, can be compared."""
    return (*(cell[name] for name in CELL), cell["prompts"])


def find_best_chain(cells):
    """By name_set() the fastest chain, of the service alone."""
    best = {}
    for cell in cells:
        key = name_set(cell)
        if name_kind(cell["method"]) == "chain" and \
                cell["ms-per-token"] < best.get(key, cell)["ms-per-token"] + 1e-9:
            best[key] = cell
    return best


def is_as_it_should(cell):
    """Guesses never change a text."""
    return cell["same-text"] in (None, 1) or name_kind(cell["method"]) in LOSSY


def show(number, digits=2):
    return "–" if number is None else f"{number:.{digits}f}"


def show_limit(cell):
    disk = f", a disk of {cell['disk-mb']} MB/s" if cell.get("disk-mb") else ""
    disk += f", {cell['iops']} requests a second" if cell.get("iops") else ""
    return f"{cell['limit-mib']} MiB{disk}" if cell["limit-mib"] else "all in memory"


def print_cells(cells):
    best = find_best_chain(cells)
    title = None
    for cell in cells:
        key = tuple(cell[name] for name in CELL)
        if key != title:
            title = key
            draft = f", draft {cell['draft']}" if cell["draft"] else ""
            print(f"\n{cell['model']}, {show_limit(cell)}, {cell['task']}, answers "
                  f"of at most {cell['most-tokens']} tokens{draft}\n\n"
                  "| method | prompts | ms a token | MB read a token | tokens a pass | guesses right | × plain | "
                  "slowest prompt | × plain ÷ tokens a pass | × best chain | same text | forecast ms |\n"
                  + "|---" * 12 + "|")
        chain = best.get(name_set(cell))
        beside = chain["ms-per-token"] / cell["ms-per-token"] if chain else None
        print(f"| {show_method(cell)} | {cell['prompts']} | {show(cell['ms-per-token'], 1)} | "
              f"{show(cell['mb-per-token'], 0)} | "
              f"{show(cell['tokens-per-pass'])} | {show(cell['accepted-share'])} | "
              f"{show(cell['times-plain'])} | {show(cell['least-times-plain'])} | "
              f"{show(cell['of-tokens-per-pass'])} | {show(beside)} | {show(cell['same-text'])} | "
              f"{show(cell['forecast-ms'], 1)} |")


def show_method(cell):
    if name_kind(cell["method"]) != "target":
        return cell["method"]
    return f"{cell['method']}, {cell['active']:.0f} % left out"


def print_all(report):
    for stream in report["streams"]:
        print(f"\n{stream['model']}, plain streaming, group of {show_limit(stream)}\n\n"
              "| figure | median | least | greatest |\n|---|---|---|---|")
        for name, figure in stream["figures"].items():
            print(f"| {name} | {figure['median']:.2f} {figure['unit']} | "
                  f"{min(figure['samples']):.2f} | {max(figure['samples']):.2f} |")
    print_cells(report["cells"])
