# SPDX-License-Identifier: LGPL-2.1-or-later
"""Results of storms as tables and JSON, and the readings as a trace for llmsvc-bench pressure."""
from lib.figures import median
from lib.process import MIB
from storm.eater import ROUND_S
from storm.plan import N_APPS

# Moments of a run that the JSON has, for the plot: more than can be told apart.
MAX_MOMENTS = 1500


def thin(samples, most):
    return samples[::-(-len(samples) // most) or 1]


def describe(sample):
    """Seconds, MiB of the server, the eater and the group, tokens so far, what the eater waited so
    far in ms."""
    return [round(sample["at-s"], 2),
            *(round(n / MIB, 1) for n in (sample["anonymous"] + sample["mapped"], sample["held"],
                                          sample["usage"])),
            sample["tokens"], round(sample["eater"]["some-us"] / 1000)]


def make_data(plan, results):
    return {
        "model-bytes": plan.model_bytes, "limit-bytes": plan.limit, "budget-bytes": plan.budget,
        "eater-file-bytes": plan.file_bytes, "apps": N_APPS, "context-tokens": plan.n_begin,
        "runs": results,
    }


# --- tables ---

def get_stall(side, key):
    return lambda storm: storm[f"{side}-stall"][key] / 1000


get_some_ms = get_stall("eater", "some-us")


def format_figure(storms, get, wants_known=False):
    """wants_known: only those that are at least 0. Times as short as a look are none."""
    values = [get(storm) for storm in storms]
    values = [round(value, 2) for value in values if not wants_known or value >= 0]
    if not values:
        return "–"
    return f"{round(median(values), 2):.4g} ({min(values):.4g} – {max(values):.4g})"


def print_stalls(plan, results):
    print("| beside | storms | killed | eater waited, ms a storm | at a full stop, ms | "
          f"in all, ms | rounds of {round(plan.hold_s / ROUND_S)} | longest for a MiB, ms |\n"
          "|---|---|---|---|---|---|---|---|")
    for result in results:
        storms, killed = result["storms"], result["killed-in-storm"]
        cells = [result["beside"], len(storms), f"**in storm {killed}**" if killed else "no",
                 format_figure(storms, get_some_ms),
                 format_figure(storms, get_stall("eater", "full-us")),
                 f"{sum(map(get_some_ms, storms)):.4g}",
                 format_figure(storms, lambda storm: storm["rounds"]),
                 format_figure(storms, lambda storm: storm["longest-ms"])]
        print(f"| {' | '.join(map(str, cells))} |")


def print_servers(results):
    print("\n| server | tokens/s before | in a storm | afterwards | speed back, s | MiB before | "
          "afterwards | back, s | waited itself, ms a storm | answers | lost | not the same |\n"
          "|---|---|---|---|---|---|---|---|---|---|---|---|")
    for result in results[1:]:
        storms, back, different = (result[key] for key in
                                   ("storms", "resident-back-s", "different"))
        cells = [result["beside"], f"{result['tokens-per-second-before']:.2f}",
                 format_figure(storms, lambda storm: storm["tokens-per-second"]),
                 f"{result['tokens-per-second-after']:.2f}",
                 format_figure(storms, lambda storm: storm["back-s"], True),
                 f"{result['resident-bytes-before'] / MIB:.0f}",
                 f"{result['resident-bytes-after'] / MIB:.0f}",
                 f"{back:.1f}" if back >= 0 else "–",
                 format_figure(storms, get_stall("server", "some-us")), result["answers"],
                 "yes" if "failure" in result else "none", different if different >= 0 else "–"]
        print(f"| {' | '.join(map(str, cells))} |")


def compare_stalls(own, other):
    """What the eater waited beside one, as a part of what it did beside the other: by storm, of
    those that both had."""
    pairs = list(zip(own["storms"], other["storms"]))
    sums = [sum(get_some_ms(pair[i]) for pair in pairs) for i in range(2)]
    return sums[0] / sums[1] if sums[1] > 0 else 0


def print_tables(plan, results):
    levels = [f"{level / MIB:.0f}" for level in plan.levels]
    print(f"model {plan.model_bytes / MIB:.0f} MiB, limit {plan.limit / MIB:.0f} MiB, "
          f"budget of the service {plan.budget / MIB:.0f} MiB; the eater takes {levels[0]}, {levels[1]} or "
          f"{levels[2]} MiB and reads {plan.file_bytes / MIB:.0f}\n")
    print_stalls(plan, results)
    print_servers(results)
    for other in results[2:]:
        print(f"\nbeside {results[1]['beside']} the eater waits "
              f"{compare_stalls(results[1], other):.2f} times as long as beside {other['beside']}",
              end="")
    print()
    for result in results:
        if "failure" in result:
            print(f"\n{result['beside']}: {result['failure']}")
        if not result["eater-lived"]:
            print(f"\n{result['beside']}: the eater did not live to the end")


# --- readings ---

def make_trace(plan, samples):
    lines = ["# Readings in storms (llmsvc-bench storm --trace)"]
    anonymous = max(sample["anonymous"] for sample in samples)
    for name, size in (("group", plan.limit), ("budget", plan.budget), ("model", plan.model_bytes),
                       ("contexts", anonymous)):
        lines.append(f"{name}-mib {size / MIB:.0f}")
    lines += ["busy 1", "recorded 1", "# time_ms system-some-us system-full-us own-some-us "
              "own-full-us available total limit usage cache"]
    before_ms = -1
    for sample in samples:
        at_ms = int(sample["at-s"] * 1000)
        # Readings that were late come close behind one another.
        if at_ms > before_ms:
            system, own = sample["system"], sample["server"]
            figures = (at_ms, system["some-us"], system["full-us"], own["some-us"], own["full-us"],
                       system["available"], system["total"], plan.limit, sample["usage"],
                       sample["cache"])
            lines.append(" ".join(map(str, figures)))
            before_ms = at_ms
    return "\n".join(lines) + "\n"
