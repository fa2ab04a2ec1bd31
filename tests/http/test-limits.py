#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the endpoint refuses, and clients that vanish, are slow, or send what is no request."""
import json
import socket
import time

import endpoint
import rig

CHAT = "/v1/chat/completions"
HELLO = [endpoint.user("Hello")]


def refuse(http, members, status, part):
    body = {"messages": HELLO, **members}
    endpoint.fails(http.ask("POST", CHAT, body), status, part)


def test_refused(http):
    refuse(http, {"messages": []}, 400, "“messages”")
    refuse(http, {"messages": "hello"}, 400, "“messages”")
    refuse(http, {"messages": [{"role": "robot", "content": "x"}]}, 400, "messages[0]")
    refuse(http, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "“image_url”")
    refuse(http, {"messages": [{"role": "user", "content": 5}]}, 400, "messages[0]")
    refuse(http, {"n": 2}, 400, "“n”")
    refuse(http, {"temperature": "hot"}, 400, "“temperature”")
    refuse(http, {"temperature": 1e9}, 400, "“temperature”")
    refuse(http, {"max_tokens": -1}, 400, "“max_tokens”")
    refuse(http, {"functions": []}, 400, "“tools”")
    refuse(http, {"audio": {}}, 400, "“audio”")
    refuse(http, {"modalities": ["audio"]}, 400, "“modalities”")
    refuse(http, {"stream": "yes"}, 400, "“stream”")
    refuse(http, {"stop": [1]}, 400, "“stop”")
    refuse(http, {"response_format": {"type": "xml"}}, 400, "“response_format”")
    refuse(http, {"tools": {}}, 400, "“tools”")
    refuse(http, {"top_logprobs": 3}, 400, "“logprobs”")
    refuse(http, {"model": "gpt-4o"}, 404, "llmsvc-demo-8M-Q8_0")
    refuse(http, {"reasoning_effort": "much"}, 400, "“reasoning_effort”")
    refuse(http, {"messages": [endpoint.user("word " * 2000)]}, 400, "context")
    # unknown members are no fault
    http.chat(HELLO, max_tokens=1, user="me", metadata={"a": 1}, service_tier="auto", store=False, unheard=3)
    endpoint.fails(http.ask("GET", CHAT), 405, "POST")
    endpoint.fails(http.ask("POST", "/v1/embeddings", {}), 404, "embeddings")
    endpoint.fails(http.ask("GET", "/elsewhere"), 404, "/elsewhere")
    for text in (b"", b"{", b"[]", b"\xff", b'{"messages": [' + b"[" * 5000):
        connection = http.connect()
        connection.request("POST", CHAT, text)
        reply = connection.getresponse()
        assert reply.status == 400 and json.loads(reply.read())["error"]["message"], text


def test_refused_stream(http):
    """What can't be answered is no stream."""
    body = {"messages": [endpoint.user("word " * 2000)], "stream": True}
    endpoint.fails(http.ask("POST", CHAT, body), 400, "context")


def test_many(http):
    """Connections beyond a user's limit are closed, and those that are open go on."""
    mine = [send_raw(http, b"") for _ in range(300)]
    time.sleep(0.2)
    open_now = 0
    for client in mine:
        client.setblocking(False)
        try:
            open_now += client.recv(1) != b""
        except BlockingIOError:
            open_now += 1
        except ConnectionResetError:
            pass
    assert 200 <= open_now <= 256, open_now
    # another kind of connection is not affected
    assert http.ask("GET", "/v1/models", headers={"Authorization": "Bearer sk-right"},
                    connection=http.connect_tcp())[0] == 200
    for client in mine:
        client.close()
    until = time.monotonic() + endpoint.LIMIT_S
    while time.monotonic() < until:
        try:
            assert http.ask("GET", "/health")[0] == 200
            return
        except (ConnectionError, OSError):
            time.sleep(0.05)
    raise AssertionError("no connection is taken any more")


def test_keys(http):
    endpoint.fails(http.ask("GET", "/v1/models", connection=http.connect_tcp()), 401, "key")
    http.add_key("notes", "sk-right")
    right, wrong = ({"Authorization": f"Bearer sk-{which}"} for which in ("right", "wrong"))
    endpoint.fails(http.ask("GET", "/v1/models", headers=wrong, connection=http.connect_tcp()), 401, "unknown")
    assert http.ask("GET", "/v1/models", headers=right, connection=http.connect_tcp())[0] == 200
    # as an administrator makes and removes them
    made = http.rig.run("http", "key", "add", "tasks", "--file", str(http.keys))
    key = {"Authorization": "Bearer " + made.output.strip()}
    assert http.ask("GET", "/v1/models", headers=key, connection=http.connect_tcp())[0] == 200
    again = http.rig.run("http", "key", "add", "tasks", "--file", str(http.keys))
    assert again.status == 1 and "“tasks” has a key" in again.complaint, again
    listed = json.loads(http.rig.run("http", "key", "list", "--json", "--file", str(http.keys)).output)
    assert [each["name"] for each in listed["keys"]] == ["notes", "tasks"], listed
    assert http.rig.run("http", "key", "remove", "tasks", "--file", str(http.keys)).status == 0
    endpoint.fails(http.ask("GET", "/v1/models", headers=key, connection=http.connect_tcp()), 401, "unknown")
    assert http.rig.run("http", "key", "remove", "tasks", "--file", str(http.keys)).status == 1
    # over the Unix socket it only says which application it is
    assert http.ask("GET", "/v1/models", headers=wrong)[0] == 200
    http.chat(HELLO, right, max_tokens=1)
    assert "notes" in http.rig.run("apps").output
    # this endpoint is no unit of the system: it calls for its own user alone
    http.add_key("theirs", "sk-theirs", user=12345)
    theirs = http.ask("GET", "/v1/models", headers={"Authorization": "Bearer sk-theirs"},
                      connection=http.connect_tcp())
    endpoint.fails(theirs, 403, "uid")


def test_browsers(http):
    endpoint.fails(http.ask("GET", "/health", headers={"Host": "evil.example"}), 403, "host")
    endpoint.fails(http.ask("GET", "/health", headers={"Origin": "http://evil.example"}), 403, "browser")
    for host in ("localhost", "127.0.0.1:8000", "[::1]:80"):
        assert http.ask("GET", "/health", headers={"Host": host})[0] == 200, host


def send_raw(http, text):
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(endpoint.LIMIT_S)
    client.connect(str(http.path))
    client.sendall(text)
    return client


def read_to_end(client):
    text = b""
    while True:
        piece = client.recv(65536)
        if not piece:
            return text
        text += piece


def test_large(http):
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
    client = send_raw(http, head + b"Content-Length: 99999999\r\n\r\n")
    assert b" 413 " in client.recv(4096).split(b"\r\n")[0]
    client.close()
    client = send_raw(http, head + b"Transfer-Encoding: chunked\r\n\r\n")
    try:
        for _ in range(40):
            client.sendall(b"80000\r\n" + b"x" * 0x80000 + b"\r\n")
        raise AssertionError("a body without end is taken")
    except (BrokenPipeError, ConnectionResetError):
        pass
    client.close()
    client = send_raw(http, b"GET / HTTP/1.1\r\nHost: localhost\r\n")
    try:
        for i in range(10000):
            client.sendall(b"X-%d: %s\r\n" % (i, b"y" * 1000))
    except (BrokenPipeError, ConnectionResetError):
        pass
    client.close()
    client = send_raw(http, b"\x00\x01\x02 no request\r\n\r\n")
    read_to_end(client)
    assert http.ask("GET", "/health")[0] == 200


def count_cancelled(http):
    return json.loads(http.rig.run("stats", "--json").output)["cancelled"]


def test_vanished(http):
    """A client that goes takes its answer with it, whether it read or not."""
    n_before = count_cancelled(http)
    for streams in (True, False):
        body = json.dumps({"messages": [endpoint.user("Tell me a story")], "stream": streams,
                           "logit_bias": {"2": -100, "4": -100}, "max_tokens": 900}).encode()
        client = send_raw(http, b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                          b"Content-Length: %d\r\n\r\n" % len(body) + body)
        if streams:
            client.recv(100)
        else:
            # the answer, which takes a multiple of that, has begun
            time.sleep(0.05)
        client.close()
    until = time.monotonic() + endpoint.LIMIT_S
    while count_cancelled(http) < n_before + 2 and time.monotonic() < until:
        time.sleep(0.1)
    assert count_cancelled(http) == n_before + 2
    http.chat(HELLO, max_tokens=1)


def test_pipelined(http):
    """Of requests that follow each other at once the first is answered; behind it the connection may end."""
    one = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    client = send_raw(http, one * 3 + one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    text = read_to_end(client)
    assert text.count(b'{"status":"ok"}') in (1, 4), text


def main():
    service = rig.Rig()
    try:
        http = endpoint.Endpoint(service)
        try:
            for test in (test_refused, test_refused_stream, test_keys, test_browsers, test_large, test_vanished,
                         test_pipelined, test_many):
                print(test.__name__, flush=True)
                test(http)
        finally:
            http.stop()
    finally:
        service.close()


main()
