#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""A question about this computer: the model calls a function, which asks UPower over D-Bus.

    ./battery.py "How full is the battery?"
"""

import json
import sys

import gi

gi.require_version("Llmsvc", "1")
from gi.repository import Gio, GLib, Llmsvc

MAX_ROUNDS = 5


def get_battery():
    bus = Gio.bus_get_sync(Gio.BusType.SYSTEM, None)
    (percentage,) = bus.call_sync(
        "org.freedesktop.UPower", "/org/freedesktop/UPower/devices/DisplayDevice",
        "org.freedesktop.DBus.Properties", "Get",
        GLib.Variant("(ss)", ("org.freedesktop.UPower.Device", "Percentage")),
        GLib.VariantType("(v)"), Gio.DBusCallFlags.NONE, -1, None).unpack()
    return {"percent": percentage}


FUNCTIONS = {"get_battery": get_battery}
TOOLS = [{"type": "function", "function": {
    "name": "get_battery",
    "description": "How full the battery of this computer is, in percent",
    "parameters": {"type": "object", "properties": {}},
}}]


def run_call(call):
    """The message with what the function that the model calls has to say."""
    function = call["function"]
    try:
        result = FUNCTIONS[function["name"]](**json.loads(function["arguments"]))
    except GLib.Error as error:
        result = {"error": error.message}
    extras = {"tool-call-id": GLib.Variant("s", call["id"]),
              "name": GLib.Variant("s", function["name"])}
    return Llmsvc.Message(role="tool", text=json.dumps(result),
                          extras=GLib.Variant("a{sv}", extras))


def ask(prompt):
    client = Llmsvc.Client.new_sync(Gio.BusType.NONE, None, None)
    context = client.create_context_sync(None, None)
    options = Llmsvc.Options(max_tokens=128, temperature=0)
    options.set_value("tools", GLib.Variant("s", json.dumps(TOOLS)))
    messages = [Llmsvc.Message(role="user", text=prompt)]
    for _ in range(MAX_ROUNDS):
        answer = context.generate_sync(messages, options, None).finish_sync(None)
        calls = json.loads(answer.props.tool_calls or "[]")
        if not calls:
            return answer.props.text
        messages = [run_call(call) for call in calls]
    return answer.props.text


try:
    print(ask(" ".join(sys.argv[1:]) or "How full is the battery?"))
except GLib.Error as error:
    sys.exit(error.message)
