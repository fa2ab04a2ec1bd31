#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""One question, one answer, without a main loop.

    ./ask.py "Find me a comedy movie."
"""

import sys

import gi

gi.require_version("Llmsvc", "1")
from gi.repository import Gio, GLib, Llmsvc

try:
    client = Llmsvc.Client.new_sync(Gio.BusType.NONE, None, None)
    options = Llmsvc.Options(max_tokens=64, temperature=0)
    answer = client.complete_sync(" ".join(sys.argv[1:]) or "Hello!", options, None)
except GLib.Error as error:
    sys.exit(error.message)

print(answer.props.text)
