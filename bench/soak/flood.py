# SPDX-License-Identifier: LGPL-2.1-or-later
"""The harm that callers may do: one kind, as fast as it goes, until the process is killed.

Floods of calls go over a socket of their own, as messages made beforehand: a binding would keep the
processor busy with itself. What the service says does not matter.
"""
import fcntl
import itertools
import os
import re
import socket
import struct

from lib import bus, process
from lib.bus import Gio, GLib
from lib.figures import Random

ID = "org.example.Hostile"
N_IN_FLIGHT = 64
HUGE_BYTES = 8 << 20
SMALL_PIPE = 4096
MAX_PIPES = 64
N_VARIANTS = 1000
REPLIES = (2, 3)
SERIAL_AT = 8
STORY = "Tell me a very long story."
NO_CONTEXT = bus.PATH + "/contexts/0123456789abcdef0123456789abcdef"


# --- floods of calls: (interface, method, type, arguments) and maybe another path ---

def make_bus_calls():
    return [("bus", "GetId", None)]


def make_calls():
    options = {"kind": "(a{sv})", "arguments": (bus.NONE,)}
    for n in range(N_VARIANTS):
        for interface, method in ((bus.SERVICE, "GetStatistics"), (bus.SERVICE, "ListContexts"),
                                  (bus.NAME + ".Admin", "ListApps")):
            yield interface, method, *options.values()
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


def make_blob(interface, method, kind, arguments=(), path=bus.PATH):
    name = bus.NAME
    if interface == "bus":
        name, path, interface = bus.BUS
    message = Gio.DBusMessage.new_method_call(name, path, interface, method)
    message.set_byte_order(Gio.DBusMessageByteOrder.LITTLE_ENDIAN)
    message.set_serial(1)
    if isinstance(arguments, GLib.Variant):
        message.set_body(arguments)
    elif kind is not None:
        message.set_body(GLib.Variant(kind, arguments))
    return bytearray(message.to_blob(Gio.DBusCapabilityFlags.NONE))


def connect(address):
    kind, path = re.match(r"unix:(path|abstract)=([^,]+)", address).groups()
    client = socket.socket(socket.AF_UNIX)
    client.connect(path if kind == "path" else "\0" + path)
    client.sendall(b"\0AUTH EXTERNAL " + str(os.getuid()).encode().hex().encode() + b"\r\n")
    if not client.recv(4096).startswith(b"OK"):
        raise ConnectionError("the bus lets nobody in")
    client.sendall(b"BEGIN\r\n")
    return client


def take_replies(client, buffer):
    """How many came; what follows them stays in @buffer."""
    buffer += client.recv(1 << 16)
    n = at = 0
    while len(buffer) - at >= 16:
        order = "<" if buffer[at] == ord("l") else ">"
        body, _, fields = struct.unpack_from(order + "III", buffer, at + 4)
        size = 16 + (fields + 7) // 8 * 8 + body
        if len(buffer) - at < size:
            break
        n += buffer[at + 1] in REPLIES
        at += size
    del buffer[:at]
    return n


def flood_calls(address, calls, n_in_flight):
    greeting = [("bus", "Hello", None), (bus.SERVICE, "Register", "(sa{sv})", (ID, bus.NONE))]
    blobs = itertools.chain([make_blob(*call) for call in greeting],
                            itertools.cycle([make_blob(*call) for call in calls]))
    client = connect(address)
    buffer = bytearray()
    n_wanted = n_in_flight
    for serial, blob in enumerate(blobs, 1):
        # The bus refuses a serial that is under way.
        struct.pack_into("<I", blob, SERIAL_AT, serial & 0x7fffffff or 1)
        client.sendall(blob)
        n_wanted -= 1
        while n_wanted == 0:
            n_wanted = take_replies(client, buffer)


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
    """Answers that nobody reads, in pipes as small as they get."""
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
