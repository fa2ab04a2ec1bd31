# SPDX-License-Identifier: LGPL-2.1-or-later
"""Others under names on the bus: a service that is not the real one, and a systemd."""
import os
import subprocess

import rig

FAKE_OBJECTS = os.environ["LLM_FAKE_OBJECTS"]


def write_text(value):
    """GVariant's text of it."""
    if isinstance(value, bool):
        return f"<{'true' if value else 'false'}>"
    if isinstance(value, int):
        return f"<uint64 {value}>" if value >= 1 << 16 else f"<uint32 {value}>"
    return "<'" + "".join(c if c.isprintable() and c not in "'\\" else f"\\u{ord(c):04x}"
                          for c in value) + "'>"


def write_dict(properties):
    return "@a{sv} {" + ", ".join(f"'{key}': {write_text(value)}"
                                  for key, value in properties.items()) + "}"


class Fake:
    def __init__(self, environment, name, *objects, error=None):
        self.environment, self.name = dict(environment), name
        if error is not None:
            self.environment["FAKE_ERROR"] = f"org.llm.Service.Error.{error}"
        self.arguments = [word for path, interface, properties in objects
                          for word in (path, interface, write_dict(properties))]

    def __enter__(self):
        self.process = subprocess.Popen([FAKE_OBJECTS, self.name, *self.arguments],
                                        env=self.environment, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == f"{self.name} is there\n"
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(rig.LIMIT_S)
        self.process.stdout.close()


class Service(Fake):
    """Says of itself what it is told to, and can do nothing: all fails with `error`."""

    def __init__(self, environment, properties, error=None):
        super().__init__(environment, "org.llm.Service",
                         ("/org/llm/Service", "org.llm.Service", properties), error=error)


class Systemd(Fake):
    """Knows one unit, that of the service."""

    def __init__(self, environment, unit, service):
        name = "org.freedesktop.systemd1"
        super().__init__(
            environment, name,
            ("/unit", f"{name}.Unit", {"Id": "llmsvc.service", "LoadState": "loaded",
                                       "ActiveState": "active", "SubState": "running", **unit}),
            ("/unit", f"{name}.Service", {"Result": "success", "NRestarts": 0, **service}))
