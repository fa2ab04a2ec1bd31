#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""A question about this computer and its user's day: the model calls functions, which ask UPower
and the calendar of the desktop over D-Bus.

    ./assistant.py "Is the battery full enough for my meeting?"
"""

import json
import sys
import time

import gi

gi.require_version("Llmsvc", "1")
from gi.repository import Gio, GLib, Llmsvc

MAX_ROUNDS = 5
# the calendar sends what it finds, and does not say when that is all
CALENDAR_MS = 500


def get_battery():
    bus = Gio.bus_get_sync(Gio.BusType.SYSTEM, None)
    (percentage,) = bus.call_sync(
        "org.freedesktop.UPower", "/org/freedesktop/UPower/devices/DisplayDevice",
        "org.freedesktop.DBus.Properties", "Get",
        GLib.Variant("(ss)", ("org.freedesktop.UPower.Device", "Percentage")),
        GLib.VariantType("(v)"), Gio.DBusCallFlags.NONE, -1, None).unpack()
    return {"percent": percentage}


def get_events(days=1):
    """From Evolution Data Server, by way of GNOME's calendar service."""
    bus = Gio.bus_get_sync(Gio.BusType.SESSION, None)
    name, path = "org.gnome.Shell.CalendarServer", "/org/gnome/Shell/CalendarServer"
    events = {}

    def on_events(_bus, _sender, _path, _interface, _signal, parameters):
        for key, summary, start, _end, _more in parameters.unpack()[0]:
            begins = GLib.DateTime.new_from_unix_local(start)
            events[key] = {"summary": summary, "begins": begins.format("%A %Y-%m-%d %H:%M")}

    subscription = bus.signal_subscribe(name, name, "EventsAddedOrUpdated", path, None,
                                        Gio.DBusSignalFlags.NONE, on_events)
    now = int(time.time())
    try:
        bus.call_sync(name, path, name, "SetTimeRange",
                      GLib.Variant("(xxb)", (now, now + days * 86400, True)), None,
                      Gio.DBusCallFlags.NONE, -1, None)
        loop = GLib.MainLoop()
        GLib.timeout_add(CALENDAR_MS, loop.quit)
        loop.run()
    finally:
        bus.signal_unsubscribe(subscription)
    return {"events": list(events.values())}


FUNCTIONS = {"get_battery": get_battery, "get_events": get_events}
TOOLS = json.dumps([
    {"type": "function", "function": {
        "name": "get_battery",
        "description": "How full the battery of this computer is, in percent",
        "parameters": {"type": "object", "properties": {}}}},
    {"type": "function", "function": {
        "name": "get_events",
        "description": "What is in the user's calendar from now on",
        "parameters": {"type": "object", "properties": {
            "days": {"type": "integer", "minimum": 1, "maximum": 31,
                     "description": "How many days to look at"}}}}},
])


def run_call(call):
    """The message with what the function that the model calls has to say."""
    function = call["function"]
    try:
        result = FUNCTIONS[function["name"]](**json.loads(function["arguments"]))
    except GLib.Error as error:
        result = {"error": error.message}
    return Llmsvc.Message.new_tool_result(json.dumps(call), json.dumps(result))


def ask(prompt):
    client = Llmsvc.Client.new_sync(Gio.BusType.NONE, None, None)
    context = client.create_context_sync(None, None)
    options = Llmsvc.Options(max_tokens=128, temperature=0, tools=TOOLS)
    messages = [Llmsvc.Message(role="user", text=prompt)]
    for _ in range(MAX_ROUNDS):
        answer = context.generate_sync(messages, options, None).finish_sync(None)
        calls = json.loads(answer.props.tool_calls or "[]")
        if not calls:
            return answer.props.text
        messages = [run_call(call) for call in calls]
    return answer.props.text


try:
    print(ask(" ".join(sys.argv[1:]) or "Is the battery full enough for my next meeting?"))
except GLib.Error as error:
    sys.exit(error.message)
