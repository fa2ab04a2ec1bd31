# SPDX-License-Identifier: LGPL-2.1-or-later
"""llmsvc-http on sockets of a folder, before the service of a rig."""
import hashlib
import http.client
import json
import os
import signal
import socket
import subprocess
import time

HTTP = os.environ["LLM_HTTP"]
LIMIT_S = 120


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=LIMIT_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(LIMIT_S)
        self.sock.connect(str(self.path))


def find_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Endpoint:
    def __init__(self, rig):
        self.rig = rig
        self.path = rig.folder / "http.socket"
        self.keys = rig.folder / "http-keys"
        self.port = find_port()
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [HTTP, "--session", "--socket", self.path, "--port", str(self.port), "--keys", self.keys],
            env=dict(self.rig.environment, G_DEBUG="fatal-criticals"))
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.01)
        raise TimeoutError("the endpoint does not listen")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(LIMIT_S) == 0

    def add_key(self, name, key, user=None):
        digest = hashlib.sha256(key.encode()).hexdigest()
        with open(self.keys, "a", encoding="utf-8") as file:
            file.write(f"[{name}]\nuser={os.getuid() if user is None else user}\nhash={digest}\n")

    def connect(self):
        return UnixConnection(self.path)

    def connect_tcp(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)

    def ask(self, method, path, body=None, headers=None, connection=None):
        """Status, headers and the JSON of the reply."""
        connection = connection or self.connect()
        connection.request(method, path, None if body is None else json.dumps(body), headers or {})
        reply = connection.getresponse()
        text = reply.read()
        return reply.status, reply.headers, json.loads(text)

    def chat(self, messages, headers=None, **members):
        status, _, answer = self.ask("POST", "/v1/chat/completions",
                                     {"messages": messages, "temperature": 0, **members}, headers)
        assert status == 200, answer
        return answer

    def stream(self, messages, **members):
        """The events of an answer, without the last, which says that nothing follows."""
        connection = self.connect()
        connection.request("POST", "/v1/chat/completions",
                           json.dumps({"messages": messages, "temperature": 0, "stream": True, **members}))
        reply = connection.getresponse()
        assert reply.status == 200 and reply.headers["Content-Type"] == "text/event-stream", reply.status
        lines = [line for line in reply.read().decode().split("\n\n") if line and not line.startswith(":")]
        assert lines[-1] == "data: [DONE]", lines[-1]
        return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def user(text):
    return {"role": "user", "content": text}


def fails(reply, status, part):
    assert reply[0] == status and part in reply[2]["error"]["message"], reply
