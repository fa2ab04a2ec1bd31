# SPDX-License-Identifier: LGPL-2.1-or-later
"""Other programs: with the command line and the web interface of llama.cpp's llama-server."""
import http.client
import json
import os
import shlex
import socket
import time

from lib import process

EVENT = b"data: "
READY_S = 180


class PeerError(Exception):
    """status: of HTTP, 0 for none."""

    def __init__(self, text, status=0):
        super().__init__(text)
        self.status = status


class Peer:
    """The program, started and ready. ask() comes from any thread."""

    def __init__(self, command, model, n_slots, n_tokens, n_threads=None, **more):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        argv = shlex.split(command) + ["-m", str(model), "--host", "127.0.0.1", "--port",
                                       str(self.port), "-np", str(n_slots), "-c", str(n_tokens)]
        if n_threads is not None:
            argv += ["-t", str(n_threads)]
        self.process = process.spawn_program(argv, **more)
        self.await_ready(command)

    def await_ready(self, command):
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise PeerError(f"{command} ended before it was ready")
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=READY_S)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                pass
            finally:
                connection.close()
            time.sleep(0.05)
        process.kill(self.process)
        raise PeerError(f"{command} was not ready after {READY_S} s")

    def ask(self, body, on_piece):
        """One answer, greedy and as long as @body says; calls @on_piece(text) as it comes.

        Returns the last event. Events are told apart without parsing each: that would cost the
        processors that are measured.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        body = {"temperature": 0, "ignore_eos": True, "stream": True, **body}
        try:
            connection.request("POST", "/completion", json.dumps(body),
                               {"Content-Type": "application/json"})
            reply = connection.getresponse()
            if reply.status != 200:
                raise PeerError(f"HTTP status {reply.status}", reply.status)
            while line := reply.readline():
                if not line.startswith(EVENT):
                    continue
                if b'"stop":false' in line or b'"stop": false' in line:
                    on_piece(line)
                else:
                    return json.loads(line[len(EVENT):])
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise PeerError(str(error)) from None
        finally:
            connection.close()
        raise PeerError("HTTP status 200, no last event", 200)

    def close(self):
        process.end(self.process)


def count_processors():
    return len(os.sched_getaffinity(0))
