#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The chat window on the bus and display it finds.

    check-chat.py picture GJS CHAT.JS [PICTURE]    with the demo model: asks, takes a picture,
                                                   and shows the same the next time
    check-chat.py stop GJS CHAT.JS                 with tests/bindings/mock.json: stops an answer
                                                   and begins anew, as its buttons do
    check-chat.py keys GJS CHAT.JS                 the same, by the keyboard: Enter sends, with
                                                   Shift it begins a line, and the input stays
                                                   small enough for the conversation

PICTURE is where the documentation keeps it; without, it is only looked at.
"""

import os
import subprocess
import sys
import tempfile
import time

import gi

gi.require_version("Gdk", "4.0")
gi.require_version("Llmsvc", "1")
from gi.repository import Gdk, Gio, GLib, Llmsvc

APP_ID = "org.llm.ExampleChat"
WINDOW_PATH = "/org/llm/ExampleChat/window/1"
PROMPTS = ["I have two dogs and a cat.", "They are called Rex, Bello and Minka.",
           "Do you like animals?"]
# of a picture, for the cursor that blinks
MAX_DIFFERENT = 0.002
MAX_BYTES = 200 * 1024


def read_messages():
    client = Llmsvc.Client.new_sync(Gio.BusType.NONE, APP_ID, None)
    context = client.open_context_sync("chat", None, None)
    return [(message.props.role, message.props.text)
            for message in context.list_messages_sync(None)]


def run_chat(command, picture, prompts):
    done = subprocess.run([*command, "--screenshot", picture, *prompts],
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert os.path.getsize(picture) < MAX_BYTES
    texture = Gdk.Texture.new_from_filename(picture)
    width, height = texture.get_width(), texture.get_height()
    assert width >= 400 and height >= 400, (width, height)
    pixels = Gdk.Texture.new_from_filename(picture).save_to_tiff_bytes().get_data()
    return width, height, pixels


def call_window(method, arguments):
    bus = Gio.bus_get_sync(Gio.BusType.SESSION, None)
    return bus.call_sync(APP_ID, WINDOW_PATH, "org.gtk.Actions", method, arguments, None,
                         Gio.DBusCallFlags.NONE, -1, None).unpack()


def wait_enabled(action):
    """Until the button of that action can be pressed."""
    while True:
        try:
            if call_window("Describe", GLib.Variant("(s)", (action,)))[0][0]:
                return
        except GLib.Error:
            pass  # there is no window yet
        time.sleep(0.01)


def activate(action):
    call_window("Activate", GLib.Variant("(sava{sv})", (action, [], {})))


def check_stop(command):
    with subprocess.Popen([*command, "slow"]) as chat:
        try:
            wait_enabled("stop")
            activate("stop")
            wait_enabled("new")
            messages = read_messages()
            assert messages[0] == ("user", "slow"), messages
            assert [role for role, _text in messages] in (["user"], ["user", "assistant"]), messages
            activate("new")
            wait_enabled("new")
            assert read_messages() == []
        finally:
            chat.terminate()


def press(*arguments):
    """What xdotool does, which types as a person would."""
    return subprocess.run(["xdotool", *arguments], capture_output=True, text=True,
                          check=True).stdout


def measure():
    """The height of the window, which is the only one."""
    windows = press("search", "--sync", "--onlyvisible", "--name", "^Chat$").split()
    lines = press("getwindowgeometry", "--shell", windows[0]).splitlines()
    return windows[0], int(dict(line.split("=") for line in lines)["HEIGHT"])


def wait_for_messages(texts, limit_s=60):
    """Until the conversation is @texts. Returns the greatest height of the window meanwhile."""
    end = time.monotonic() + limit_s
    highest = 0
    while time.monotonic() < end:
        highest = max(highest, measure()[1])
        if [text for _role, text in read_messages()] == texts:
            return highest
        time.sleep(0.1)
    raise AssertionError(f"{read_messages()} instead of {texts}")


def check_keys(command):
    with subprocess.Popen(command) as chat:
        try:
            # a conversation can be begun anew once it is there
            wait_enabled("new")
            window, height = measure()
            # there is no window manager to do it
            press("windowfocus", "--sync", window)
            press("type", "one")
            press("key", "Return")
            wait_for_messages(["one", "Hello."])
            wait_enabled("new")

            press("type", "two")
            for _ in range(60):
                press("key", "shift+Return")
            press("type", "three")
            press("key", "Return")
            highest = wait_for_messages(["one", "Hello.", "two" + "\n" * 60 + "three", "Hello."])
            assert highest == height, f"the window grew from {height} to {highest}"
            wait_enabled("new")
            press("key", "KP_Enter")
            press("key", "ctrl+n")
            wait_for_messages([])
        finally:
            chat.terminate()


def check_picture(command, picture=None):
    with tempfile.TemporaryDirectory() as folder:
        picture = picture or f"{folder}/first.png"
        width, height, first = run_chat(command, picture, PROMPTS)
        assert len(set(first)) > 20, "the picture has next to nothing on it"
        messages = read_messages()
        assert [role for role, _text in messages] == ["user", "assistant"] * 3, messages
        assert [text for role, text in messages if role == "user"] == PROMPTS, messages
        assert all(text for _role, text in messages), messages

        # The same conversation is shown by the next run, which asks nothing.
        again_width, again_height, again = run_chat(command, f"{folder}/again.png", [])
        assert (again_width, again_height) == (width, height)
        n_different = sum(left != right for left, right in zip(first, again, strict=True))
        different = n_different / len(first)
        assert different < MAX_DIFFERENT, f"the next window looks different: {different}"
        assert read_messages() == messages
        print(f"{width} × {height}, {os.path.getsize(picture)} bytes, {different:.4f} different")


def main():
    kind, gjs, program, *picture = sys.argv[1:]
    command = [gjs, "-m", program]
    if kind == "stop":
        check_stop(command)
    elif kind == "keys":
        check_keys(command)
    else:
        check_picture(command, *picture)


main()
