# SPDX-License-Identifier: LGPL-2.1-or-later
"""A connection to a bus for what must be fast or exact: messages made beforehand, over a socket.

A binding would keep the processor busy with itself, and a call would wait for its threads.
"""
import os
import re
import socket
import struct

from lib import bus
from lib.bus import Gio, GLib

METHOD_RETURN, ERROR = 2, 3
SERIAL_AT = 8
MAX_SERIAL = 0x7fffffff


def make_blob(interface, method, kind=None, arguments=(), path=bus.PATH):
    """A message. interface: "bus" for the bus itself. arguments: maybe a variant."""
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


class Wire:
    """One thread."""

    def __init__(self, address, app_id=None):
        kind, path = re.match(r"unix:(path|abstract)=([^,]+)", address).groups()
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path if kind == "path" else "\0" + path)
        uid = str(os.getuid()).encode().hex()
        self.socket.sendall(f"\0AUTH EXTERNAL {uid}\r\n".encode())
        if not self.socket.recv(4096).startswith(b"OK"):
            raise ConnectionError("the bus refuses the connection")
        self.socket.sendall(b"BEGIN\r\n")
        self.buffer = bytearray()
        self.serial = 0
        self.call(make_blob("bus", "Hello"))
        if app_id is not None:
            self.call(make_blob(bus.SERVICE, "Register", "(sa{sv})", (app_id, bus.NONE)))

    def send(self, blob):
        """The bus refuses a serial that is under way."""
        self.serial = self.serial % MAX_SERIAL + 1
        struct.pack_into("<I", blob, SERIAL_AT, self.serial)
        self.socket.sendall(blob)

    def take_replies(self):
        """Waits for something to come. The types of the replies among it."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the bus has closed the connection")
        buffer = self.buffer
        buffer += data
        types, at = [], 0
        while len(buffer) - at >= 16:
            order = "<" if buffer[at] == ord("l") else ">"
            body, _, fields = struct.unpack_from(order + "III", buffer, at + 4)
            size = 16 + (fields + 7) // 8 * 8 + body
            if len(buffer) - at < size:
                break
            if buffer[at + 1] in (METHOD_RETURN, ERROR):
                types.append(buffer[at + 1])
            at += size
        del buffer[:at]
        return types

    def call(self, blob):
        """Waits for the reply, while no other call is under way."""
        self.send(blob)
        while not (types := self.take_replies()):
            pass
        if types[0] == ERROR:
            raise ConnectionError("a call failed")
