# SPDX-License-Identifier: LGPL-2.1-or-later
"""An application of the load: its contexts, and what it does with them."""
import fcntl
import time

from lib import bus
from lib.figures import Random
from soak.book import UNSEEN, Book, Wrong

# The demo model's prompts. A number tells turns apart that say the same.
PROMPTS = [
    "I want a restaurant in San Jose.",
    "Find me a hotel for two nights.",
    "What is the weather like?",
    "Book a table for four at seven.",
    "Is there something cheaper?",
    "Yes, please do that.",
    "Play a song by someone I like.",
    "How long is the drive from here to the airport tomorrow morning?",
    "No, the other one. And tell me its phone number and whether they have parking.",
]
CLASSES = ["interactive", "responsive", "background"]
REFUSALS = ("QuotaExceeded", "Overloaded", "NoMemory")
FORK_REFUSALS = ("ContextFull", "NoMemory", "Overloaded")
# What callers see of a service that has died. The next one knows neither unnamed contexts nor the
# application.
LOSSES = tuple("org.freedesktop.DBus.Error." + name for name in (
    "NoReply", "ServiceUnknown", "NameHasNoOwner", "Spawn.ChildExited", "Spawn.ChildSignaled",
    "UnknownObject")) + ("partial",)
CALL_TIMEOUT_MS = 120000
ANSWER_S = 120
STALLED_TOKENS = 400
SMALL_PIPE = 4096
MAX_CONTEXT_TOKENS = 800
NO_REVISION = (1 << 64) - 1


class Slot:
    """A context of an application. path: None until it is open. is_new: nothing is known of it."""

    def __init__(self, name=None):
        self.book = Book()
        self.name = name
        self.path = None
        self.tokens = 0
        self.is_new = False


class App:
    """One thread. Errors are bus.CallError and Wrong."""

    def __init__(self, load, index):
        self.load = load
        self.id = f"org.example.Soak{index:02}"
        self.random = Random.derive(load.seed, index + 1)
        self.connection = None
        self.slots = [Slot(f"notes {i}" if i % 2 == 0 else None) for i in range(load.n_contexts)]
        self.n_calls = 0

    # --- calls ---

    def call(self, slot, method, kind, *arguments):
        return self.connection.call(bus.CONTEXT, method, kind, *arguments, path=slot.path)

    def call_service(self, method, kind, *arguments):
        return self.connection.call(bus.SERVICE, method, kind, *arguments)

    def get(self, slot, key):
        return self.connection.get(bus.CONTEXT, key, slot.path)

    def make_prompt(self):
        return f"{self.random.choose(PROMPTS)} ({self.random.range(0, 9999)})"

    def make_options(self, n_tokens=None, **more):
        options = {
            "max-tokens": bus.option("u", n_tokens or
                                     self.random.range(2, self.load.options.answer)),
            "temperature": bus.option("d", 0.8),
            "seed": bus.option("t", self.random.next()),
        }
        if self.random.get() < 0.4:
            options["slo"] = bus.option("s", self.random.choose(CLASSES))
        return {**options, **{key.replace("_", "-"): value for key, value in more.items()}}

    # --- contexts ---

    def set_tokens(self, slot, tokens):
        self.load.add(n_tokens=tokens - slot.tokens)
        slot.tokens = tokens

    def read_tokens(self, slot):
        self.set_tokens(slot, self.get(slot, "Tokens"))

    def settle(self, slot):
        """Waits until no call of the context is under way: the wrong revision is looked at after
        that, and what is in doubt is decided then."""
        while True:
            try:
                self.call(slot, "Rollback", "(ua{sv})", 1,
                          {"if-revision": bus.option("t", NO_REVISION)})
                raise Wrong("A rollback at a wrong revision was done")
            except bus.CallError as error:
                if error.name == "Conflict":
                    return
                if error.name != "ContextBusy":
                    raise
            time.sleep(0.003)

    def compare(self, slot):
        self.settle(slot)
        revision = self.get(slot, "Revision")
        messages = self.call(slot, "GetMessages", "(uua{sv})", 0, 0, bus.NONE)[0]
        slot.book.compare(messages, revision)
        self.read_tokens(slot)

    def close_context(self, slot):
        slot.is_new = True
        self.call(slot, "Close", "(a{sv})", bus.NONE)

    def open_context(self, slot):
        slot.path = None
        if slot.name is not None:
            slot.path = self.call_service("OpenContext", "(sa{sv})", slot.name,
                                          {"create": bus.option("b", True)})[0]
        else:
            slot.path = self.connection.create_context()

    def make_context(self, slot):
        """Of this one everything is known: that nothing is in it."""
        self.open_context(slot)
        if slot.name is not None:
            # It may still be there with what it had.
            self.settle(slot)
            self.close_context(slot)
            self.open_context(slot)
        slot.book.begin(self.get(slot, "Revision"))
        self.set_tokens(slot, 0)
        slot.is_new = False

    def open(self):
        """Connects, and makes or opens all contexts."""
        if self.connection is not None:
            self.connection.close()
        self.connection = None
        self.connection = bus.Connection(self.load.address, self.id, CALL_TIMEOUT_MS)
        for slot in self.slots:
            if slot.name is not None and slot.path is not None and not slot.is_new:
                self.open_context(slot)
            else:
                self.make_context(slot)

    def renew(self, slot):
        self.close_context(slot)
        self.make_context(slot)

    def take_turn(self, slot, said, *answers, results=None):
        """A turn was acknowledged; its revision must be the next."""
        wanted = slot.book.revision + 1
        slot.book.add(said, *answers)
        self.load.add(n_turns=1)
        revision = (results or {}).get("revision", wanted)
        if revision != wanted:
            raise Wrong(f"A turn is said to be revision {revision} and should be {wanted}")
        self.read_tokens(slot)

    def roll_back(self, slot):
        n = min(self.random.range(1, 3), len(slot.book.turns))
        if n == 0:
            self.renew(slot)
            return
        slot.book.doubt_roll_back(n)
        self.call(slot, "Rollback", "(ua{sv})", n, bus.NONE)
        slot.book.roll_back(n)
        self.read_tokens(slot)

    def accept_refusal(self, slot, error):
        """Raises @error unless the service may say so; then there is no turn."""
        if error.name == "ContextFull":
            self.roll_back(slot)
        elif error.name in REFUSALS:
            self.load.add(n_refused=1)
        else:
            raise error

    def refuse_turn(self, slot, error, said, *answers):
        slot.book.doubt_add(said, *answers)
        self.accept_refusal(slot, error)

    # --- answers that stream ---

    def begin_stream(self, slot, n_tokens=None, is_text=False, **options):
        """(what was said, the stream): None instead of the stream when it was refused in order."""
        said = self.make_prompt()
        if is_text:
            options["stream"] = bus.option("s", "text")
        try:
            return said, bus.Stream(self.connection, slot.path, said,
                                    self.make_options(n_tokens, **options), is_text)
        except bus.CallError as error:
            self.refuse_turn(slot, error, said, UNSEEN)
            return said, None

    def take_stream(self, slot, said, stream, was_cancelled=False):
        stream.read(time.monotonic() + ANSWER_S)
        if stream.results is not None:
            self.take_turn(slot, said, stream.text, results=stream.results)
        elif stream.failure == "Cancelled" and was_cancelled:
            pass
        elif stream.failure in ("ContextFull", "NoMemory", "Overloaded"):
            self.accept_refusal(slot, bus.CallError(stream.failure, stream.failure_text))
        else:
            slot.book.doubt_add(said, UNSEEN)
            if stream.failure is None and stream.has_ended:
                raise bus.CallError("partial", "An answer ended with nothing")
            raise Wrong(f"An answer ended with {stream.failure or 'no end in sight'}")

    def read_to_random_moment(self, stream):
        stream.read(time.monotonic() + self.random.range(0, 40000) / 1e6)

    def generate(self, slot):
        said, stream = self.begin_stream(slot)
        if stream is not None:
            self.take_stream(slot, said, stream)

    def generate_text(self, slot):
        """Nothing tells how plain text ended, so the context is asked."""
        said, stream = self.begin_stream(slot, is_text=True)
        if stream is not None:
            slot.book.doubt_add(said, UNSEEN)
            stream.read(time.monotonic() + ANSWER_S)
            self.compare(slot)

    def cancel(self, slot, on_cancel):
        said, stream = self.begin_stream(slot, STALLED_TOKENS,
                                         on_cancel=bus.option("s", on_cancel))
        if stream is not None:
            slot.book.doubt_add(said, UNSEEN)
            self.read_to_random_moment(stream)
            self.connection.call(bus.GENERATION, "Cancel", "(a{sv})", bus.NONE,
                                 path=stream.generation)
            self.take_stream(slot, said, stream, was_cancelled=True)

    def cancel_and_discard(self, slot):
        self.cancel(slot, "discard")

    def cancel_and_keep(self, slot):
        self.cancel(slot, "keep")

    def leave(self, slot, said, stream):
        slot.book.doubt_add(said, UNSEEN)
        stream.close()
        self.compare(slot)

    def hang_up(self, slot):
        said, stream = self.begin_stream(slot)
        if stream is not None:
            self.read_to_random_moment(stream)
            self.leave(slot, said, stream)

    def stall(self, slot):
        """A pipe too small for the answer, left alone for a while, then read after all, or not."""
        said, stream = self.begin_stream(slot, STALLED_TOKENS)
        if stream is not None:
            fcntl.fcntl(stream.fd, fcntl.F_SETPIPE_SZ, SMALL_PIPE)
            time.sleep(self.random.range(200, 3000) / 1e3)
            if self.random.get() < 0.5:
                self.leave(slot, said, stream)
            else:
                self.take_stream(slot, said, stream)

    # --- answers in a reply ---

    def ask(self, slot, said, options):
        """None when the call was refused in order."""
        try:
            return self.call(slot, "Ask", "(sa{sv})", said, options)
        except bus.CallError as error:
            self.refuse_turn(slot, error, said, UNSEEN)
            return None

    def ask_once(self, slot):
        said = self.make_prompt()
        reply = self.ask(slot, said, self.make_options())
        if reply is not None:
            self.take_turn(slot, said, reply[0], results=reply[1])

    def ask_twice(self, slot):
        """The second time the request is answered from what is kept, and adds nothing."""
        said = self.make_prompt()
        options = self.make_options(request_id=bus.option("s", f"{self.id}-{self.n_calls}"))
        first = self.ask(slot, said, options)
        if first is None:
            return
        self.take_turn(slot, said, first[0], results=first[1])
        second = self.ask(slot, said, options)
        if second is not None and (second[0] != first[0] or first[1].get("repeated") or
                                   not second[1].get("repeated")):
            raise Wrong("A repeated request was not answered as the first one")

    def complete(self, slot):
        try:
            self.call_service("Complete", "(sa{sv})", self.make_prompt(), self.make_options())
        except bus.CallError as error:
            self.accept_refusal(slot, error)

    # --- without an answer ---

    def count_tokens(self, slot):
        self.call_service("CountTokens", "(a(ssa{sv})a{sv})", bus.message(self.make_prompt()),
                          bus.NONE)

    def append(self, slot):
        said = self.make_prompt()
        options = {"wait": bus.option("b", True)} if self.random.get() < 0.5 else bus.NONE
        try:
            self.call(slot, "Append", "(a(ssa{sv})a{sv})", bus.message(said), options)
        except bus.CallError as error:
            self.refuse_turn(slot, error, said)
            return
        self.take_turn(slot, said)

    def fork_and_ask(self, slot):
        fork = Slot()
        fork.path = self.call(slot, "Fork", "(a{sv})", bus.NONE)[0]
        failure = None
        try:
            self.call(fork, "Ask", "(sa{sv})", self.make_prompt(), self.make_options())
        except bus.CallError as error:
            failure = error
        self.close_context(fork)
        if failure is not None and failure.name not in FORK_REFUSALS:
            raise failure

    def look(self, slot):
        self.call(slot, "GetMemory", "(a{sv})", bus.NONE)
        self.connection.call(bus.PROPERTIES, "GetAll", "(s)", bus.CONTEXT, path=slot.path)
        self.connection.get_statistics()
        contexts = self.call_service("ListContexts", "(a{sv})", bus.NONE)[0]
        if len(contexts) != len(self.slots):
            raise Wrong(f"ListContexts gives {len(contexts)} contexts; the application has "
                        f"{len(self.slots)}")

    def try_wrong_revision(self, slot):
        revision = bus.option("t", slot.book.revision + 7)
        try:
            self.call(slot, "Ask", "(sa{sv})", "Hello", self.make_options(2, if_revision=revision))
        except bus.CallError as error:
            if error.name == "Conflict":
                return
            raise
        raise Wrong("A wrong revision was accepted")

    def vanish(self, slot):
        """The connection goes with a call under way; the application comes back."""
        said = self.make_prompt()
        slot.book.doubt_add(said, UNSEEN)
        self.connection.begin(slot.path, said, self.make_options(), self.random.get() < 0.5)
        time.sleep(self.random.range(0, 30000) / 1e6)
        self.open()
        if slot.name is not None:
            self.compare(slot)

    # --- the choice ---

    def act(self):
        """One call of those that fit now: the load holds the same number of tokens all the time,
        or nothing that it does could be compared. Raises what should not happen."""
        slot = self.random.choose(self.slots)
        name, _, operation = self.random.choose(LOTS)
        if self.load.n_tokens > self.load.options.tokens:
            slot = max(self.slots, key=lambda slot: slot.tokens)
            name, _, operation = ROLLBACK if self.random.get() < 0.7 else RENEW
        elif slot.tokens > MAX_CONTEXT_TOKENS:
            name, _, operation = ROLLBACK
        # An earlier failure may have left it so.
        if self.connection is None:
            self.open()
        if slot.path is None or slot.is_new:
            self.make_context(slot)
        try:
            operation(self, slot)
        except (bus.CallError, Wrong) as error:
            error.args = (f"{name}, {'named' if slot.name else 'unnamed'} context at revision "
                          f"{slot.book.revision} with {len(slot.book.turns)} turns: {error}",)
            raise
        self.load.count(name)


ROLLBACK = ("Rollback", 3, App.roll_back)
RENEW = ("Close, CreateContext", 2, App.renew)
# With how often each is chosen.
OPERATIONS = [
    ("Generate, read to the end", 26, App.generate),
    ("Generate as plain text", 5, App.generate_text),
    ("Generate, cancelled", 7, App.cancel_and_discard),
    ("Generate, cancelled and kept", 3, App.cancel_and_keep),
    ("Generate, pipe closed", 4, App.hang_up),
    ("Generate, not read for a while", 2, App.stall),
    ("Ask", 9, App.ask_once),
    ("Ask, the same request twice", 2, App.ask_twice),
    ("Complete", 6, App.complete),
    ("CountTokens", 3, App.count_tokens),
    ("Append", 8, App.append),
    ("Fork, Ask, Close", 3, App.fork_and_ask),
    ROLLBACK,
    RENEW,
    ("GetMessages, compared", 6, App.compare),
    ("GetMemory, lists, properties", 7, App.look),
    ("wrong revision", 2, App.try_wrong_revision),
    ("connection dropped", 2, App.vanish),
]
LOTS = [operation for operation in OPERATIONS for _ in range(operation[1])]
