# SPDX-License-Identifier: LGPL-2.1-or-later
"""The harm that callers may do: one kind, as fast as it goes, until the process is killed.

What the service says does not matter.
"""
import fcntl
import itertools

from lib import bus, process
from lib.bus import GLib
from lib.figures import Random
from lib.wire import Wire, make_blob

ID = "org.example.Hostile"
N_IN_FLIGHT = 64
HUGE_BYTES = 8 << 20
SMALL_PIPE = 4096
MAX_PIPES = 64
N_VARIANTS = 1000
STORY = "Tell me a very long story."
NO_CONTEXT = bus.PATH + "/contexts/0123456789abcdef0123456789abcdef"


# --- floods of calls: (interface, method, type, arguments) and maybe another path ---

def make_bus_calls():
    return [("bus", "GetId", None)]


def make_calls():
    for n in range(N_VARIANTS):
        for interface, method in ((bus.SERVICE, "GetStatistics"), (bus.SERVICE, "ListContexts"),
                                  (bus.NAME + ".Admin", "ListApps")):
            yield interface, method, "(a{sv})", (bus.NONE,)
        yield (bus.SERVICE, "CountTokens", "(a(ssa{sv})a{sv})",
               (bus.message(f"How many tokens are these? {n}"), bus.NONE))


def make_properties():
    for interface in (bus.SERVICE, bus.MEMORY):
        yield bus.PROPERTIES, "GetAll", "(s)", (interface,)


def make_contexts():
    """Half of them named, none ever closed: the quota is met soon."""
    for n in range(N_VARIANTS):
        options = {"system": bus.option("s", "You are flooded.")}
        if n % 2 == 0:
            options["name"] = bus.option("s", f"flood {n}")
        yield bus.SERVICE, "CreateContext", "(a{sv})", (options,)


def make_garbage():
    many = "[" + ", ".join(["{'max-tokens', <'many'>}"] * 300) + "]"
    yield bus.SERVICE, "NoSuchMethod", None
    yield bus.CONTEXT, "Ask", "(sa{sv})", ("Hello", bus.NONE), NO_CONTEXT
    yield bus.SERVICE, "Complete", "(u)", (7,)
    yield (bus.SERVICE, "Complete", None,
           GLib.Variant.parse(GLib.VariantType("(sa{sv})"), f"('Hello', {many})", None, None))


def make_huge():
    """More text than a call may bring, and as many messages as fit into it."""
    yield bus.SERVICE, "Complete", "(sa{sv})", ("a" * HUGE_BYTES, bus.NONE)
    yield (bus.SERVICE, "CountTokens", "(a(ssa{sv})a{sv})",
           ([("user", "Hello", bus.NONE)] * 20000, bus.NONE))


def make_answers():
    yield bus.SERVICE, "Complete", "(sa{sv})", (STORY, {"max-tokens": bus.option("u", 200)})


FLOODS = {
    "bus": (make_bus_calls, N_IN_FLIGHT), "calls": (make_calls, N_IN_FLIGHT),
    "properties": (make_properties, N_IN_FLIGHT), "contexts": (make_contexts, N_IN_FLIGHT),
    "garbage": (make_garbage, N_IN_FLIGHT), "huge": (make_huge, 2),
    "answers": (make_answers, N_IN_FLIGHT),
}


def flood_calls(address, calls, n_in_flight):
    wire = Wire(address, ID)
    n_wanted = n_in_flight
    for blob in itertools.cycle([make_blob(*call) for call in calls]):
        wire.send(blob)
        n_wanted -= 1
        while n_wanted == 0:
            n_wanted = len(wire.take_replies())


# --- floods one after the other ---

def begin_answer(connection, context):
    try:
        return bus.Stream(connection, context, STORY, {"max-tokens": bus.option("u", 500)})
    except bus.CallError:
        return None


def flood_cancels(address, random):
    connection = bus.Connection(address, ID)
    context = connection.create_context()
    while True:
        stream = begin_answer(connection, context)
        for _ in range(4 if stream is not None else 0):
            try:
                connection.call(bus.GENERATION, "Cancel", "(a{sv})", bus.NONE,
                                path=stream.generation)
            except bus.CallError:
                pass


def flood_pipes(address, random):
    """Answers that are never read, in pipes as small as they get."""
    connection = bus.Connection(address, ID)
    streams = []
    while True:
        try:
            stream = begin_answer(connection, connection.create_context())
        except bus.CallError:
            continue
        if stream is not None:
            fcntl.fcntl(stream.fd, fcntl.F_SETPIPE_SZ, SMALL_PIPE)
            streams.append(stream)
        del streams[:-MAX_PIPES]


def flood_connections(address, random):
    while True:
        try:
            connection = bus.Connection(address, f"org.example.Flood{random.next()}")
            connection.create_context()
            connection.close()
        except bus.CallError:
            pass


LOOPS = {"cancels": flood_cancels, "pipes": flood_pipes, "connections": flood_connections}


def run(address, kind, seed):
    """In a process of its own."""
    process.die_with_parent()
    if kind in FLOODS:
        make, n_in_flight = FLOODS[kind]
        flood_calls(address, make(), n_in_flight)
    LOOPS[kind](address, Random.derive(seed, 0xf100d))
