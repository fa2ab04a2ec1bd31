# SPDX-License-Identifier: LGPL-2.1-or-later
"""The figures for monitoring: the same valid OpenMetrics text from llmctl and from the service's
socket, whatever clients of that do."""
import os
import re
import signal
import socket
import stat
import subprocess
import time
import unittest

import rig

RULES = [{"text": "You said: {prompt}"}]
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\n"])*)"')
SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{([^}]*)\})? (\S+)")
SUFFIXES = {"counter": ["_total"], "gauge": [""], "unknown": [""], "info": ["_info"],
            "stateset": [""]}


def parse(text):
    """OpenMetrics 1.0, as far as it is used, strictly: {(sample, labels): value}."""
    assert text.endswith("# EOF\n"), text[-80:]
    families, samples = {}, {}
    current = None
    for line in text.split("\n")[:-2]:
        if line.startswith("# "):
            kind, name, rest = line[2:].split(" ", 2)
            assert kind in ("TYPE", "UNIT", "HELP"), line
            assert NAME.fullmatch(name), line
            if current is None or current["name"] != name:
                # all that belongs to a family stands together
                assert name not in families, line
                current = families[name] = {"name": name, "samples": 0}
            assert kind not in current and not current["samples"], line
            current[kind] = rest
            if kind == "TYPE":
                assert rest in SUFFIXES, line
                assert not name.endswith(("_total", "_info", "_created", "_bucket", "_count",
                                          "_sum")), line
            if kind == "UNIT":
                assert name.endswith("_" + rest), line
            continue
        found = SAMPLE.fullmatch(line)
        assert found, line
        name, labels, value = found.groups()
        assert current and "TYPE" in current, line
        kind = current["TYPE"]
        assert name in [current["name"] + suffix for suffix in SUFFIXES[kind]], line
        pairs = LABEL.findall(labels or "")
        assert ",".join(f'{key}="{text}"' for key, text in pairs) == (labels or ""), line
        assert len({key for key, _ in pairs}) == len(pairs), line
        number = float(value)
        if kind == "counter":
            assert number >= 0, line
        if kind == "stateset":
            assert number in (0, 1) and [key for key, _ in pairs] == [current["name"]], line
        if kind == "info":
            assert number == 1, line
        assert (name, tuple(pairs)) not in samples, line
        samples[name, tuple(pairs)] = number
        current["samples"] += 1
    assert all(family["samples"] for family in families.values()), families
    return samples


class Metrics(unittest.TestCase):
    def setUp(self):
        self.rig = rig.Rig({"rules": RULES})
        self.path = self.rig.folder / "metrics.socket"

    def tearDown(self):
        self.rig.close()

    def restart_with_socket(self, setting=None):
        self.rig.stop()
        (self.rig.folder / "llmsvc.conf").write_text(
            f"[service]\nmetrics={setting or self.path}\n")
        self.rig.start()

    def connect(self):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(rig.LIMIT_S)
        client.connect(str(self.path))
        return client

    def ask(self, request=b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"):
        """(status line, headers, body)"""
        with self.connect() as client:
            client.sendall(request)
            answer = b""
            while data := client.recv(65536):
                answer += data
        head, _, body = answer.decode().partition("\r\n\r\n")
        return head.split("\r\n")[0], head.split("\r\n")[1:], body

    def check_alive(self):
        status, _, body = self.ask()
        self.assertEqual(status, "HTTP/1.0 200 OK")
        self.assertEqual(self.rig.run("ask", "Hello there").status, 0)
        return parse(body)

    # --- over the bus ---

    def test_command(self):
        self.rig.run("ask", "--context", "secretname", "Hello Zanzibarine")
        outcome = self.rig.run("metrics")
        self.assertEqual(outcome.status, 0, outcome)
        samples = parse(outcome.output)
        self.assertEqual(samples["llmsvc_requests_total", ()], 1)
        self.assertEqual(samples["llmsvc_contexts", ()], 1)
        self.assertEqual(
            samples["llmsvc_availability", (("llmsvc_availability", "ready"),)], 1)
        self.assertEqual(samples["llmsvc_build_info", (("version", "0.1.0"),)], 1)
        self.assertGreater(samples["llmsvc_output_tokens_total", ()], 0)
        self.assertGreater(samples["llmsvc_process_resident_bytes", ()], 1 << 20)
        self.assertNotIn("secret", outcome.output)
        self.assertNotIn("Zanzibarine", outcome.output)

        # every counter of the service is in it
        statistics = self.rig.json("stats")
        self.assertGreaterEqual(len(samples), len(statistics))
        raw = self.rig.json("metrics")
        self.assertEqual(set(raw), {"service", "memory", "statistics"})
        self.assertEqual(raw["statistics"].keys(), statistics.keys())

    def test_does_not_start(self):
        self.rig.close()
        self.rig = rig.Rig({"rules": RULES}, activatable=True)
        outcome = self.rig.run("metrics")
        self.assertEqual(outcome.status, 4, outcome)
        self.assertEqual(outcome.output, "")
        self.assertEqual(self.rig.get_pid(), 0)

    # --- the socket ---

    def test_socket(self):
        self.restart_with_socket()
        mode = os.stat(self.path).st_mode
        self.assertTrue(stat.S_ISSOCK(mode))
        self.assertEqual(stat.S_IMODE(mode), 0o660)
        status, headers, body = self.ask()
        self.assertEqual(status, "HTTP/1.0 200 OK")
        self.assertIn("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8",
                      headers)
        self.assertIn(f"Content-Length: {len(body.encode())}", headers)
        samples = parse(body)
        # the same table as llmctl's
        self.assertEqual(samples.keys(), parse(self.rig.run("metrics").output).keys())

        self.assertEqual(self.ask(b"GET / HTTP/1.0\n\n")[0], "HTTP/1.0 200 OK")
        self.assertEqual(self.ask(b"GET /metrics?x=1 HTTP/1.0\r\n\r\n")[0], "HTTP/1.0 200 OK")
        status, headers, body = self.ask(b"HEAD /metrics HTTP/1.0\r\n\r\n")
        self.assertEqual((status, body), ("HTTP/1.0 200 OK", ""))

        self.rig.stop()
        self.assertFalse(self.path.exists())

    def test_off(self):
        self.restart_with_socket("off")
        self.assertFalse(self.path.exists())

    def test_left_over(self):
        """The socket of a service that crashed is no obstacle; what is no socket is left alone."""
        self.restart_with_socket()
        self.rig.stop(signal.SIGKILL)
        self.assertTrue(self.path.exists())
        self.rig.start()
        self.check_alive()

        self.rig.stop()
        self.path.write_text("precious")
        self.rig.start()
        self.assertEqual(self.path.read_text(), "precious")
        self.assertEqual(self.rig.run("ask", "Hello there").status, 0)
        self.rig.stop()
        self.assertEqual(self.path.read_text(), "precious")

    def test_taken(self):
        """One that somebody answers is not taken away."""
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(self.path))
            other.listen(1)
            self.restart_with_socket()
            with self.connect():
                other.accept()[0].close()
            self.assertEqual(self.rig.run("ask", "Hello there").status, 0)

    def test_garbage(self):
        self.restart_with_socket()
        for request, wanted in (
                (b"POST /metrics HTTP/1.0\r\n\r\n", "405"),
                (b"GET /etc/passwd HTTP/1.0\r\n\r\n", "404"),
                (b"GET /metrics/../x HTTP/1.0\r\n\r\n", "404"), (b"\r\n\r\n", "400"),
                (b"GET\r\n\r\n", "400"), (b"GET /metrics\r\n\r\n", "400"),
                (b"\0\0\0\0", "400"), (b"\xff\xfe" * 40 + b"\r\n\r\n", "400"),
                (b"GET /metrics HTTP/1.0\r\nX: " + b"x" * 100000, "431")):
            with self.subTest(request=request[:40]):
                try:
                    self.assertIn(f" {wanted} ", self.ask(request)[0])
                except (BrokenPipeError, ConnectionResetError):
                    # it was answered and closed before all of it was taken
                    self.assertEqual(wanted, "431")
        # gone before and in the middle of a request
        self.connect().close()
        with self.connect() as client:
            client.sendall(b"GET /met")
        with self.connect() as client:
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        self.check_alive()

    def test_slow(self):
        """Clients that say nothing, or one byte now and then, don't keep others out for long, and
        never the service from its work."""
        self.restart_with_socket()
        clients = [self.connect() for _ in range(12)]
        self.assertEqual(self.rig.run("ask", "Hello there").status, 0)
        end = time.monotonic() + rig.LIMIT_S
        sent = 0
        # all are closed by the service, whatever they send
        while clients:
            self.assertLess(time.monotonic(), end)
            for client in list(clients):
                client.setblocking(False)
                try:
                    sent += client.send(b"G")
                    if client.recv(1) == b"":
                        raise ConnectionResetError
                except BlockingIOError:
                    pass
                except (BrokenPipeError, ConnectionResetError):
                    client.close()
                    clients.remove(client)
            time.sleep(0.2)
        self.assertGreater(sent, 0)
        self.check_alive()

    def test_many(self):
        self.restart_with_socket()
        self.check_alive()
        fds = len(os.listdir(f"/proc/{self.rig.daemon.pid}/fd"))
        for _ in range(300):
            self.assertEqual(self.ask()[0], "HTTP/1.0 200 OK")
        end = time.monotonic() + rig.LIMIT_S
        while len(os.listdir(f"/proc/{self.rig.daemon.pid}/fd")) > fds:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        self.check_alive()

    def test_end_with_clients(self):
        self.restart_with_socket()
        clients = [self.connect() for _ in range(12)]
        for client in clients:
            client.sendall(b"GET /metrics HTTP/1.0\r\n")
        daemon = self.rig.daemon
        self.rig.stop()
        self.assertEqual(daemon.returncode, 0)
        for client in clients:
            client.close()

    def test_wrong_setting(self):
        self.rig.stop()
        (self.rig.folder / "llmsvc.conf").write_text("[service]\nmetrics=yes\n")
        done = subprocess.run(self.rig.command, env=self.rig.environment, capture_output=True,
                              text=True, timeout=rig.LIMIT_S, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("[service] metrics = “yes” is neither “on”, “off” nor the full path",
                      done.stderr)

    def test_usual_place(self):
        self.rig.environment["RUNTIME_DIRECTORY"] = str(self.rig.folder / "run")
        self.path = self.rig.folder / "run" / "metrics.socket"
        self.restart_with_socket("on")
        self.assertEqual(stat.S_IMODE(os.stat(self.path.parent).st_mode), 0o755)
        self.check_alive()

    def test_no_place(self):
        self.restart_with_socket(self.rig.folder / ("x" * 150))
        self.assertEqual(self.rig.run("ask", "Hello there").status, 0)
        self.restart_with_socket("/nonexistent/folder/socket")
        self.assertEqual(self.rig.run("ask", "Hello there").status, 0)


if __name__ == "__main__":
    unittest.main()
