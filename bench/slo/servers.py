# SPDX-License-Identifier: LGPL-2.1-or-later
"""What answers the calls: the service on a private bus, or another program."""
from lib import bus
from lib.figures import Random
from lib.peer import Peer, PeerError
from slo.trace import APPS

REFUSALS = ("Overloaded", "QuotaExceeded")
HTTP_REFUSALS = (503, 429)
QUOTAS = ("[quota]\ncalls=100000\ncontexts=100000\ntokens=1000000000\nrate=100000\nqueue=100000\n")
# Tokens of prompts for peers: words in the middle of any vocabulary, no bytes or markup.
LEAST_TOKEN, MOST_TOKEN = 300, 1000


class Service:
    """The daemon. Each application has a connection of its own under its own name; a call is a new
    context, an answer that streams, and the context's end."""

    def __init__(self, options, cache, bias, scheduler, refuses):
        config = (f"[service]\nscheduler={scheduler}\n"
                  f"{'' if refuses else 'overload-factor=0' + chr(10)}{QUOTAS}")
        self.bias = bias
        self.bus = bus.PrivateBus(options.daemon, options.model, config, cache)
        self.apps = {}
        try:
            self.apps = {app: bus.Connection(self.bus.address, app) for app in APPS}
            self.apps[APPS[0]].call(bus.SERVICE, "Prewarm", "(a{sv})", bus.NONE)
        except bus.CallError as error:
            self.close()
            raise RuntimeError(f"The service did not start: {error}") from None

    def count(self, text):
        return self.apps[APPS[0]].call(bus.SERVICE, "CountTokens", "(a(ssa{sv})a{sv})",
                                       bus.message(text), bus.NONE)[0]

    def ask(self, call, text):
        """Fills @call; returns when it has ended."""
        connection = self.apps[call.arrival.app]
        context = None
        try:
            context = connection.create_context()
            stream = bus.Stream(connection, context, text, bus.greedy(
                call.arrival.n_output, slo=bus.option("s", call.arrival.slo_class), **self.bias))
            stream.read()
            if stream.results is None:
                raise bus.CallError(stream.failure or "partial",
                                    stream.failure_text or "The stream ended without results")
            call.first_s, call.last_s = stream.first_s, stream.last_s
            results = stream.results
            call.n_prompt, call.n_output = results["prompt-tokens"], results["output-tokens"]
            call.sub_model = results.get("sub-model", 100)
            if "kept-tokens" in results:
                call.kept = 100 * results["kept-tokens"] // max(1, call.n_prompt + call.n_output)
            call.end = "done"
        except bus.CallError as error:
            call.fail(error.name in REFUSALS, str(error))
        finally:
            if context is not None:
                try:
                    connection.call(bus.CONTEXT, "Close", "(a{sv})", bus.NONE, path=context)
                except bus.CallError:
                    pass

    def close(self):
        for connection in self.apps.values():
            connection.close()
        self.bus.close()


class Other:
    """A program that answers several calls at once in slots. It gets prompts of as many tokens as
    the service, and answers of the same length."""

    def __init__(self, command, options, slot_tokens):
        self.seed = options.seed
        self.peer = Peer(command, options.model, options.slots, options.slots * slot_tokens,
                         options.threads)

    def ask(self, call, text):
        random = Random.derive(self.seed, call.arrival.number)
        prompt = [random.range(LEAST_TOKEN, MOST_TOKEN) for _ in range(call.n_prompt)]
        try:
            last = self.peer.ask({"prompt": prompt, "n_predict": call.arrival.n_output,
                                  "cache_prompt": False}, lambda piece: call.note())
            call.n_output = last.get("tokens_predicted", 0)
            call.n_prompt = last.get("tokens_evaluated", 0)
            call.end = "done"
        except PeerError as error:
            call.fail(error.status in HTTP_REFUSALS, str(error))

    def close(self):
        self.peer.close()
