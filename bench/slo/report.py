# SPDX-License-Identifier: LGPL-2.1-or-later
"""What became of the calls of a run, by class: how many met their targets, and what they waited."""
from lib.figures import latency
from slo.trace import LAWS


def get_share(result):
    return 100 * result["met"] / result["calls"] if result["calls"] else 0.0


def sum_up_class(calls, law):
    """A call that was refused, failed or did not end has missed."""
    answered = [call for call in calls if call.end == "done" and call.first_s > 0]
    n_refused = sum(call.end == "refused" for call in calls)
    ttft, tpot, n_met = [], [], 0
    for call in answered:
        ttft.append((call.first_s - call.begin_s) * 1000)
        # Of the tokens behind the first.
        rest = (call.last_s - call.first_s) * 1000 / (call.n_output - 1) if call.n_output > 1 else 0
        tpot += [rest] if call.n_output > 1 else []
        n_met += ((law.ttft_ms <= 0 or ttft[-1] <= law.ttft_ms) and
                  (law.tpot_ms <= 0 or rest <= law.tpot_ms))
    result = {
        "calls": len(calls), "met": n_met, "missed": len(calls) - n_met, "refused": n_refused,
        "failed": len(calls) - len(answered) - n_refused,
        "kept-tokens-percent": float(min([call.kept for call in answered], default=100)),
        "sub-model-percent": float(min([call.sub_model for call in answered], default=100)),
        "ttft-ms": latency(ttft), "tpot-ms": latency(tpot),
    }
    return {**result, "met-percent": get_share(result)}


def sum_up(policy, load, runs):
    """Of all runs of @policy at this load; 0 for all calls at once."""
    calls = [call for run in runs for call in run.calls]
    seconds = sum(run.seconds for run in runs)
    answered = [call for call in calls if call.end == "done" and call.first_s > 0]
    failures = [call.message or "A call did not end in time" for call in calls
                if call not in answered and call.end != "refused"]
    per_second = 1 / seconds if seconds > 0 else 0
    n_output = sum(call.n_output for call in answered)
    result = {
        "policy": policy, "load": load, "seconds": seconds,
        "tokens-per-second": (sum(call.n_prompt for call in answered) + n_output) * per_second,
        "generated-tokens-per-second": n_output * per_second,
        "short-answers": sum(call.n_output < call.arrival.n_output for call in answered),
        "calling-percent-of-processor": 100 * sum(run.cpu_seconds for run in runs) * per_second,
        "classes": {name: sum_up_class([call for call in calls if call.arrival.slo_class == name],
                                       law) for name, law in LAWS.items()},
    }
    return {**result, "first-failure": failures[0]} if failures else result


def print_head():
    print("\n| load | policy | class | calls | met | missed | of these refused | met, % | "
          "TTFT p50 / p95 / p99, ms | TPOT p50 / p95 / p99, ms | kept tokens | sub-model | "
          "tokens/s |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|")


def print_result(result):
    load = f"{result['load']:.2f}" if result["load"] > 0 else "all at once"
    speed = (f"{result['tokens-per-second']:.0f} "
             f"({result['generated-tokens-per-second']:.1f} written) ")
    for name, figures in result["classes"].items():
        times = " | ".join(
            " / ".join(f"{figures[key][share]:.0f}" for share in ("p50", "p95", "p99"))
            for key in ("ttft-ms", "tpot-ms"))
        print(f"| {load} | {result['policy']} | {name} | {figures['calls']} | {figures['met']} | "
              f"{figures['missed']} | {figures['refused']} | {figures['met-percent']:.1f} | "
              f"{times} | {figures['kept-tokens-percent']:.0f} % | {figures['sub-model-percent']:.0f} % | "
              f"{speed}|", flush=True)
        speed = ""


def print_notes(player):
    """Failures, and the two policies of the service beside each other."""
    options = player.options
    for result in player.saturated + player.results:
        where = f"{result['policy']}, load {result['load']:.2f}"
        if "first-failure" in result:
            print(f"\n{where}: a call failed: {result['first-failure']}")
        if result["short-answers"] > 0:
            print(f"\n{where}: {result['short-answers']} answers were shorter than asked for")
    print()
    by_policy = {(result["policy"], result["load"]): result for result in player.results}
    for load in options.loads:
        fifo, deadline = by_policy.get(("fifo", load)), by_policy.get(("deadline", load))
        if fifo and deadline:
            met = [result["classes"]["interactive"]["met-percent"] for result in (fifo, deadline)]
            speed = deadline["tokens-per-second"] / max(fifo["tokens-per-second"], 1e-9)
            print(f"- load {load:.2f}: fifo met {met[0]:.1f} % of the interactive calls, deadline "
                  f"{met[1]:.1f} %, at {100 * speed:.0f} % of its tokens/s")
    most = max(result["calling-percent-of-processor"] for result in player.results)
    print(f"\ncapacity {player.capacity:.3f} calls/s (fifo, {options.calls} calls at once), seed "
          f"{options.seed}, {options.rounds} × {options.seconds:g} s of calls at each load; "
          f"calling took at most {most:.1f} % of one processor")


def make_data(player):
    options = player.options
    return {
        "seed": options.seed, "seconds": options.seconds, "rounds": options.rounds,
        "words-divisor": options.divisor, "capacity-calls-per-second": player.capacity,
        "classes": {name: {
            "percent-of-calls": law.share, "ttft-ms": law.ttft_ms, "tpot-ms": law.tpot_ms,
            "least-words": law.words[0], "most-words": law.words[1],
            "least-output-tokens": law.output[0], "most-output-tokens": law.output[1],
        } for name, law in LAWS.items()},
        "saturated": player.saturated, "results": player.results,
    }
