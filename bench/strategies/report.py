# SPDX-License-Identifier: LGPL-2.1-or-later
"""Which strategies answered right and in time."""
import math
import random
import statistics

# Of the whole model's time to the first token and of that for a further one, as in ELMS, table 3.
TARGETS = ((1, 1), (0.8, 0.9), (0.6, 0.8), (0.4, 0.7), (0.2, 0.6), (0.2, 0.5))
# How often calls have each target.
SKEWS = {"relaxed": (6, 5, 4, 3, 2, 1), "even": (1, 1, 1, 1, 1, 1), "tight": (1, 2, 3, 4, 5, 6)}
# What has one strategy for each target, the best of these families on the first half of the tasks. The whole
# model belongs to all.
CHOICES = {"the whole model": ("whole",), "sub-models": ("whole", "sub-model"),
           "sub-models without adapters": ("whole", "no adapter"), "shorter prompts": ("whole", "prompt"),
           "sub-models and shorter prompts": ("whole", "sub-model", "prompt", "both"),
           "trained for their size": ("whole", "trained"), "layers left out": ("whole", "layers")}
OWN = ("service", "service, whatever it costs")
BASELINES = ("sub-models without adapters", "shorter prompts", "trained for their size", "layers left out")
N_DRAWS = 2000
SEED = 1


def is_in_time(outcomes, name, target):
    one, whole = outcomes[name], outcomes["whole"]
    return "refused" not in one and "refused" not in whole \
        and one["ttft"] <= target[0] * whole["ttft"] and one["tpot"] <= target[1] * whole["tpot"]


def count(outcomes, name, target, score):
    return int(is_in_time(outcomes, name, target) and outcomes[name][score])


def rate(cases, name, target, score):
    return statistics.fmean(count(outcomes, name, target, score) for outcomes in cases)


def choose(families, cases, names, target, score):
    """The best strategy of these families; of equal ones the first."""
    return max((name for name, (family, _) in families.items() if family in names),
               key=lambda name: rate(cases, name, target, score))


def find_own(families, family, target):
    """What the service chooses for @target; nothing is less than the whole model for parts of 1."""
    if target == TARGETS[0]:
        return "whole"
    return next(name for name, (mine, its) in families.items()
                if mine == family and tuple(its or ()) == target)


def plan(families, cases, score):
    """By name of what is compared the strategies that answer, one for each target."""
    present = {family for family, _ in families.values()}
    plans = {name: [choose(families, cases, names, target, score) for target in TARGETS]
             for name, names in CHOICES.items() if present.intersection(names[1:]) or len(names) == 1}
    for family in OWN:
        plans[family] = [find_own(families, family, target) for target in TARGETS]
    return plans


def weigh(rates, skew):
    return sum(weight * one for weight, one in zip(skew, rates)) / sum(skew)


def find_random(families, cases, target, score):
    """A strategy of the service that is in time at the median, by chance."""
    names = [name for name, (family, _) in families.items()
             if family in CHOICES["sub-models and shorter prompts"]
             and statistics.fmean(is_in_time(outcomes, name, target) for outcomes in cases) >= 0.5]
    return statistics.fmean([rate(cases, name, target, score) for name in names or ["whole"]])


def find_oracle(families, cases, target, score):
    names = [name for name, (family, _) in families.items()
             if family in CHOICES["sub-models and shorter prompts"]]
    return statistics.fmean(max(count(outcomes, name, target, score) for name in names)
                            for outcomes in cases)


def forgive(outcomes):
    """As they would be if no word mattered that a shorter prompt leaves out: what a trained scorer of words
    could come to at most."""
    forgiven = dict(outcomes)
    for name, one in outcomes.items():
        base = "whole" if name.startswith("prompt ") else name.split(", prompt ")[0]
        if "refused" not in one and "refused" not in outcomes[base]:
            forgiven[name] = one | {score: outcomes[base][score] for score in ("right", "exact")}
    return forgiven


def find_bounds(families, first, second, score):
    """What could be won by what there is not: the best strategy for each task (a decision head that is never
    wrong), and words left out that don't matter (a scorer that is never wrong), in rates by target. Of tasks
    that the whole model has wrong, some strategy of many is right by chance, which no head can know: a
    decision without luck wins on the others alone."""
    names = CHOICES["sub-models and shorter prompts"]
    forgiven = [[forgive(outcomes) for outcomes in cases] for cases in (first, second)]
    found = {"static": [], "scorer": [], "decision": [], "decision without luck": []}
    for target in TARGETS:
        best = choose(families, first, names, target, score)
        static = rate(second, best, target, score)
        known = [outcomes for outcomes in second if outcomes["whole"].get(score)]
        won = find_oracle(families, known, target, score) - rate(known, best, target, score) if known else 0
        found["static"].append(static)
        found["scorer"].append(rate(forgiven[1], choose(families, forgiven[0], names, target, score), target,
                                    score))
        found["decision"].append(find_oracle(families, second, target, score))
        found["decision without luck"].append(static + won * len(known) / len(second))
    return found


def get_share(k, n):
    """Two-sided, of @k heads of @n."""
    tail = sum(math.comb(n, i) for i in range(min(k, n - k) + 1)) / 2 ** n
    return min(2 * tail, 1)


def compare(cases, one, other, skew, score):
    """The difference in points, 95 % of what tasks drawn anew give, and McNemar's exact test over tasks and
    targets."""
    differences, better, worse = [], 0, 0
    for outcomes in cases:
        pairs = [(count(outcomes, mine, target, score), count(outcomes, its, target, score))
                 for mine, its, target in zip(one, other, TARGETS)]
        better += sum(mine > its for mine, its in pairs)
        worse += sum(mine < its for mine, its in pairs)
        differences.append(100 * weigh([mine - its for mine, its in pairs], skew))
    draws = random.Random(SEED)
    means = sorted(statistics.fmean(draws.choices(differences, k=len(differences)))
                   for _ in range(N_DRAWS))
    return {"points": statistics.fmean(differences), "from": means[N_DRAWS // 40],
            "to": means[-N_DRAWS // 40], "better": better, "worse": worse,
            "p": get_share(worse, better + worse)}


def judge(families, cases):
    half = len(cases) // 2
    if half == 0:
        raise ValueError("two tasks are needed")
    first, second = cases[:half], cases[half:]
    found = {"n": len(second), "strategies": [], "scores": {}}
    for name, (family, _) in families.items():
        good = [outcomes[name] for outcomes in cases if "refused" not in outcomes[name]]
        parts = {key: statistics.median(outcomes[name][key] / outcomes["whole"][key] for outcomes in cases
                                        if outcomes[name].get(key) and outcomes["whole"].get(key))
                 for key in ("ttft", "tpot")} if good else {}
        found["strategies"].append({
            "name": name, "family": family, **parts,
            **{score: sum(one[score] for one in good) / len(cases) for score in ("right", "exact")}})
    for score in ("right", "exact"):
        plans = plan(families, first, score)
        rows = {name: [rate(second, its, target, score) for its, target in zip(names, TARGETS)]
                for name, names in plans.items()}
        rows["by chance"] = [find_random(families, second, target, score) for target in TARGETS]
        rows["oracle"] = [find_oracle(families, second, target, score) for target in TARGETS]
        bounds = find_bounds(families, first, second, score)
        best = {skew: max((name for name in BASELINES if name in rows),
                          key=lambda name, weights=weights: weigh(rows[name], weights), default=None)
                for skew, weights in SKEWS.items()}
        found["scores"][score] = {
            "plans": plans, "rates": rows,
            "could-win": {what: {skew: 100 * (weigh(bounds[what], weights) - weigh(bounds["static"], weights))
                                 for skew, weights in SKEWS.items()} for what in bounds if what != "static"},
            "skews": {skew: {name: weigh(rates, weights) for name, rates in rows.items()}
                      for skew, weights in SKEWS.items()},
            "beside": {skew: {"best": best[skew], **compare(second, plans[OWN[1]], plans[best[skew]],
                                                           weights, score)}
                       for skew, weights in SKEWS.items() if best[skew]}}
    return found


def print_all(found):
    print("| strategy | first token | further ones | right function | exact call |\n|---|---|---|---|---|")
    for one in found["strategies"]:
        print(f"| {one['name']} | {one.get('ttft', 0):.2f} | {one.get('tpot', 0):.2f} | "
              f"{100 * one['right']:.1f} % | {100 * one['exact']:.1f} % |")
    for score, judged in found["scores"].items():
        heads = [f"{first:g}, {further:g}" for first, further in TARGETS]
        print(f"\n| {score}, in time | " + " | ".join([*heads, *SKEWS]) + " |\n|" + "---|" * (len(heads) + 4))
        for name, rates in judged["rates"].items():
            cells = [*rates, *(judged["skews"][skew][name] for skew in SKEWS)]
            print(f"| {name} | " + " | ".join(f"{100 * cell:.1f}" for cell in cells) + " |")
        for name, names in judged["plans"].items():
            print(f"{name}: " + "; ".join(names))
        for what, points in judged["could-win"].items():
            print(f"a {what} that is never wrong could win over the best strategy for each target: "
                  + ", ".join(f"{one:.1f} points ({skew})" for skew, one in points.items()))
        for skew, one in judged["beside"].items():
            print(f"{skew}: {OWN[1]} beside {one['best']}: {one['points']:+.1f} points "
                  f"({one['from']:+.1f} to {one['to']:+.1f}), {one['better']} better, {one['worse']} worse, "
                  f"p = {one['p']:.2g}")
