# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the endpoint for OpenAI's HTTP adds to an answer: the same question over D-Bus and over HTTP, in
turns, each in a kept context of its own, as a stream that is read to its end by as plain a client on
either side. Short answers tell what a call costs, long ones what a token does. Then second turns of
conversations, which HTTP sends whole; and what connections hold that do nothing."""
import contextlib
import json
import pathlib
import socket
import subprocess
import time

from lib import bus, figures, model, process

WORDS = ("table", "river", "seven", "blue", "station", "evening", "garden", "letter", "window", "bread")
PROMPT_WORDS = 12
N_IDLE = 200
START_S = 10


class Client:
    """A connection to the endpoint that stays; @ends never come in its answers. One thread."""

    def __init__(self, path, ends=()):
        self.ends = ends
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))

    def stream(self, messages, n_tokens):
        """Seconds until the first text and until the end, and the text."""
        body = json.dumps({"messages": messages, "stream": True, "temperature": 0, "max_tokens": n_tokens,
                           "logit_bias": {str(token): -100 for token in self.ends}}).encode()
        began = time.perf_counter()
        self.socket.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                            b"Content-Length: %d\r\n\r\n" % len(body) + body)
        data, first = b"", None
        while not data.endswith(b"0\r\n\r\n"):
            piece = self.socket.recv(1 << 16)
            if not piece:
                raise EOFError(data.decode(errors="replace"))
            data += piece
            if first is None and b'"content":"' in data.replace(b'"content":""', b""):
                first = time.perf_counter() - began
        lines = [line.removeprefix(b"data: ") for line in data.split(b"\n") if line.startswith(b"data: {")]
        deltas = [json.loads(line)["choices"][0]["delta"] for line in lines]
        return first, time.perf_counter() - began, "".join(delta.get("content", "") for delta in deltas)


class Sides:
    def __init__(self, private, path, options):
        self.connection = bus.Connection(private.address, "org.llm.BenchHttp")
        with model.Model(options.model) as known:
            self.ends = known.ends
        self.client = Client(path, self.ends)
        self.random = figures.Random(options.seed)
        self.n_contexts = 0

    def make_prompt(self):
        return " ".join(self.random.choose(WORDS) for _ in range(PROMPT_WORDS))

    def ask_bus(self, context, prompt, n_tokens):
        began = time.perf_counter()
        if context is None:
            self.n_contexts += 1
            context = self.connection.call(bus.SERVICE, "CreateContext", "(a{sv})",
                                           {"name": bus.option("s", f"bench-{self.n_contexts}")})[0]
        stream = bus.Stream(self.connection, context, prompt,
                            bus.greedy(n_tokens, **bus.make_bias(self.ends)))
        stream.read()
        return stream.first_s - began, time.perf_counter() - began, context

    def close_bus(self, context):
        self.connection.call(bus.CONTEXT, "Close", "(a{sv})", bus.NONE, path=context)

    def ask_http(self, messages, n_tokens):
        return self.client.stream(messages, n_tokens)


def said(text):
    return {"role": "user", "content": text}


def measure_pair(sides, n_tokens, turn):
    """Seconds of a first and a second turn: of each side the whole, and the second one's first text."""
    prompts = [sides.make_prompt() for _ in range(2)]

    def over_bus():
        _, whole, context = sides.ask_bus(None, prompts[0], n_tokens)
        first, _, _ = sides.ask_bus(context, prompts[1], n_tokens)
        sides.close_bus(context)
        return whole, first

    def over_http():
        messages = [said(prompts[0])]
        _, whole, text = sides.ask_http(messages, n_tokens)
        messages += [{"role": "assistant", "content": text}, said(prompts[1])]
        first, _, _ = sides.ask_http(messages, n_tokens)
        return whole, first

    if turn % 2:
        http = over_http()
        return over_bus(), http
    mine = over_bus()
    return mine, over_http()


def measure_answers(sides, options, found):
    added = {1: [], options.tokens: []}
    for turn in range(options.runs + 2):
        for n_tokens, samples in added.items():
            (whole_bus, first_bus), (whole_http, first_http) = measure_pair(sides, n_tokens, turn)
            if turn < 2:
                continue
            samples.append(whole_http - whole_bus)
            if n_tokens > 1:
                found.add("second turn to its first text, D-Bus", "ms", 1e3 * first_bus)
                found.add("second turn to its first text, HTTP / D-Bus", "×", first_http / first_bus)
    for short, long in zip(added[1], added[options.tokens]):
        found.add("a call, HTTP beyond D-Bus", "ms", 1e3 * short)
        found.add("a token, HTTP beyond D-Bus", "µs", 1e6 * (long - short) / (options.tokens - 1))


def measure_idle(sides, path, pid, found):
    def hold():
        return process.read_fields(f"/proc/{pid}/status")["VmRSS"] / process.MIB

    before = hold()
    clients = [Client(path) for _ in range(N_IDLE)]
    for client in clients:
        client.stream([said("Hello")], 1)
    found.add(f"{N_IDLE} connections that rest", "MiB", hold() - before)


@contextlib.contextmanager
def start(private, options):
    path = pathlib.Path(private.folder, "http.socket")
    program = subprocess.Popen([options.endpoint, "--session", "--socket", path],
                               env={"DBUS_SESSION_BUS_ADDRESS": private.address})
    try:
        until = time.monotonic() + START_S
        while not path.exists() and time.monotonic() < until:
            time.sleep(0.01)
        yield path, program.pid
    finally:
        program.terminate()
        program.wait()


def main(arguments):
    parser = figures.Options("endpoint", __doc__)
    parser.add("daemon", meta="FILE", help="The llmsvcd to measure")
    parser.add("endpoint", meta="FILE", help="The llmsvc-http to measure")
    parser.add("model", meta="FILE", help="The GGUF file to answer with")
    parser.add("runs", int, 25, help="Samples of each figure (25)")
    parser.add("tokens", int, 64, help="Tokens of a long answer (64)")
    parser.add("seed", int, 1, help="Of the prompts (1)")
    parser.add_flag("json", "One JSON object")
    options = parser.parse_args(arguments)
    if None in (options.daemon, options.endpoint, options.model) or options.runs < 1 or options.tokens < 2:
        parser.error("--daemon FILE, --endpoint FILE and --model FILE are needed")
    found = figures.Figures()
    with contextlib.closing(bus.PrivateBus(options.daemon, options.model)) as private:
        private.connection.call(bus.SERVICE, "Complete", "(sa{sv})", "Hello", bus.greedy(1))
        with start(private, options) as (path, pid):
            sides = Sides(private, path, options)
            measure_answers(sides, options, found)
            measure_idle(sides, path, pid, found)
    found.print(options.json)
    return 0
