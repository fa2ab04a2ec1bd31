# SPDX-License-Identifier: LGPL-2.1-or-later
"""Plays the same calls against several policies, at rising loads, in turns."""
import copy
import resource
import threading
import time

from lib import bus
from lib.model import Model
from slo import report
from slo.servers import Other, Service
from slo.trace import BLOCK, LAWS, make_batch, make_text, make_trace

# A run that is not through by then is not through at all.
GRACE_S = 60
SATURATED_S = 600
# Room in a peer's slot beyond its longest call.
SPARE_TOKENS = 16
# For what is played before figures count.
WARM_SEED = 0x5eed


class Call:
    """What became of an arrival. n_prompt: tokens of the text, until the server tells. kept,
    sub_model: percent of the tokens that the model saw, and of the model."""

    def __init__(self, arrival, n_prompt, begin_s):
        self.arrival = arrival
        self.n_prompt = n_prompt
        self.n_output = 0
        self.kept = self.sub_model = 100
        self.begin_s = begin_s
        self.first_s = self.last_s = 0
        self.end = "unfinished"     # or done, refused, failed
        self.message = None

    def note(self):
        """Text came."""
        self.last_s = time.monotonic()
        self.first_s = self.first_s or self.last_s

    def fail(self, is_refusal, message):
        self.end = "refused" if is_refusal else "failed"
        self.message = message


class Run:
    """The calls of a trace against a server. seconds: from the beginning to the end of the last
    call. cpu_seconds: of a processor, for calling."""

    def __init__(self, server, seed, trace, n_prompts, max_calls, grace_s):
        """max_calls: at a time, 0 for no limit. grace_s: waited behind the last arrival. n_prompts:
        tokens by number of the call."""
        self.calls = []
        self.threads = []
        self.changed = threading.Condition()
        self.n_running = 0
        cpu_s = self.read_cpu()
        begin = self.ended_s = time.monotonic()
        limit = begin + (trace[-1].at_s if trace else 0) + grace_s
        for arrival in trace:
            due = begin + arrival.at_s
            time.sleep(max(due - time.monotonic(), 0))
            with self.changed:
                self.changed.wait_for(lambda: max_calls == 0 or self.n_running < max_calls,
                                      limit - time.monotonic())
                if time.monotonic() >= limit:
                    break
                self.n_running += 1
            # What the caller waits counts from the moment it wanted to call.
            call = Call(arrival, n_prompts[arrival.number],
                        due if max_calls == 0 else time.monotonic())
            self.calls.append(call)
            self.threads.append(threading.Thread(target=self.ask, daemon=True,
                                                 args=(server, call, make_text(seed, arrival))))
            self.threads[-1].start()
        with self.changed:
            is_through = self.changed.wait_for(lambda: self.n_running == 0,
                                               limit - time.monotonic())
        if not is_through:
            self.ended_s = time.monotonic()
        # What ends from now on has not ended in time.
        self.calls = [copy.copy(call) for call in self.calls]
        self.cpu_seconds = self.read_cpu() - cpu_s
        self.seconds = self.ended_s - begin

    @staticmethod
    def read_cpu():
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    def ask(self, server, call, text):
        try:
            server.ask(call, text)
        except Exception as error:
            call.fail(False, str(error))
        with self.changed:
            self.n_running -= 1
            self.ended_s = time.monotonic()
            self.changed.notify_all()

    def finish(self):
        """After the server is gone."""
        for thread in self.threads:
            thread.join()


class Player:
    """The whole benchmark. policies: (title, name or command, whether it is a peer)."""

    def __init__(self, options, cache):
        self.options = options
        self.cache = cache
        self.saturated, self.results = [], []
        with Model(options.model) as model:
            self.bias = bus.make_bias(model.ends)
        # One call of each class, one after the other: what a server does for the first time only.
        batch = make_batch(WARM_SEED, BLOCK, options.divisor)
        self.warm_trace = [next(arrival for arrival in batch if arrival.slo_class == name)
                           for name in LAWS]

    # --- servers and prompts ---

    def start_service(self, scheduler="fifo", refuses=False):
        return Service(self.options, self.cache, self.bias, scheduler,
                       refuses and scheduler != "fifo")

    def start(self, policy, trace, n_prompts, refuses):
        _, name, is_peer = policy
        if not is_peer:
            return self.start_service(name, refuses)
        calls = [(n_prompts, arrival) for arrival in trace]
        calls += [(self.warm_prompts, arrival) for arrival in self.warm_trace]
        longest = max(prompts[arrival.number] + arrival.n_output for prompts, arrival in calls)
        return Other(name, self.options, longest + SPARE_TOKENS)

    def count_prompts(self, counter, seed, n):
        """Tokens of the prompt of each call below @n."""
        return [counter.count(make_text(seed, arrival)) + self.extra_tokens
                for arrival in make_batch(seed, n, self.options.divisor)]

    def find_extra_tokens(self, counter):
        """CountTokens knows nothing of the beginning of the answer, which is a part of each
        prompt."""
        self.extra_tokens = 0
        counted = self.count_prompts(counter, WARM_SEED, BLOCK)
        call = Run(counter, WARM_SEED, self.warm_trace, counted, 1, SATURATED_S).calls[0]
        if call.end != "done" or call.n_prompt < counted[call.arrival.number]:
            raise RuntimeError(f"The first call failed: {call.message or 'no end'}")
        self.extra_tokens = call.n_prompt - counted[call.arrival.number]
        self.warm_prompts = [n + self.extra_tokens for n in counted]

    # --- runs ---

    def play(self, policy, seed, trace, n_prompts, max_calls):
        """Starts a server and plays @trace."""
        server = self.start(policy, trace, n_prompts, max_calls == 0)
        try:
            Run(server, WARM_SEED, self.warm_trace, self.warm_prompts, 1, SATURATED_S)
            run = Run(server, seed, trace, n_prompts, max_calls,
                      SATURATED_S if max_calls else GRACE_S)
        finally:
            server.close()
        run.finish()
        return run

    def add_result(self, results, policy, load, runs):
        results.append(report.sum_up(policy[0], load, runs))
        if not self.options.json:
            report.print_result(results[-1])
        return results[-1]

    def saturate(self, n_prompts):
        """What each policy does when there is more than enough to do. The capacity is what comes of
        it when calls are taken in their order."""
        options = self.options
        trace = make_batch(options.seed, options.calls, options.divisor)
        fifo = ("fifo", "fifo", False)
        for policy in options.policies + ([] if fifo in options.policies else [fifo]):
            run = self.play(policy, options.seed, trace, n_prompts, len(trace))
            result = self.add_result(self.saturated, policy, 0, [run])
            if policy == fifo:
                self.capacity = len(trace) / run.seconds
                if "first-failure" in result:
                    raise RuntimeError("The capacity can't be measured: " + result["first-failure"])

    def run_load(self, load, rounds):
        """All policies at one load, in turns."""
        options = self.options
        runs = {policy: [] for policy in options.policies}
        for number, n_prompts in enumerate(rounds):
            seed = options.seed + number
            trace = make_trace(seed, self.capacity * load, options.seconds, options.divisor)
            for policy in options.policies:
                runs[policy].append(self.play(policy, seed, trace, n_prompts, 0))
        for policy in options.policies:
            self.add_result(self.results, policy, load, runs[policy])

    def run(self):
        options = self.options
        counter = self.start_service()
        try:
            self.find_extra_tokens(counter)
            n_prompts = self.count_prompts(counter, options.seed, options.calls)
        finally:
            counter.close()
        if not options.json:
            report.print_head()
        self.saturate(n_prompts)
        counter = self.start_service()
        try:
            rate = self.capacity * options.loads[-1]
            rounds = []
            for number in range(options.rounds):
                seed = options.seed + number
                n = len(make_trace(seed, rate, options.seconds, options.divisor))
                rounds.append(self.count_prompts(counter, seed, n))
        finally:
            counter.close()
        for load in options.loads:
            self.run_load(load, rounds)
