#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The bus policy allows exactly the interfaces there are, each with its destination.

Also: the polkit actions in the interface's comments are those installed.
"""

import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
XML = ROOT / "service/bus/org.llm.Service.xml"
POLICY = ROOT / "data/dbus/org.llm.Service.conf"
ACTIONS = ROOT / "data/polkit/org.llm.Service.policy"

NAME = "org.llm.Service"
STANDARD = {
    "org.freedesktop.DBus.Introspectable",
    "org.freedesktop.DBus.ObjectManager",
    "org.freedesktop.DBus.Peer",
    "org.freedesktop.DBus.Properties",
}


def check_rules(policy, faults):
    """Returns the interfaces that the policy opens to everybody."""
    allowed = set()
    for section in policy.findall("policy"):
        for rule in section:
            if rule.tag != "allow":
                faults.append(f"a rule <{rule.tag}>: only what is allowed is listed")
            elif "own" in rule.attrib:
                if section.get("user") != "llmsvc" or rule.get("own") != NAME:
                    faults.append("only the user llmsvc may own the name, and only this one")
            elif rule.get("send_destination") != NAME:
                faults.append(f"{rule.attrib}: no destination, which opens it on all services")
            elif section.get("context") != "default":
                faults.append(f"{rule.attrib}: outside the default context")
            elif "send_interface" not in rule.attrib:
                faults.append(f"{rule.attrib}: no interface")
            else:
                allowed.add(rule.get("send_interface"))
    return allowed


def compare(what, there, wanted, faults):
    for name in sorted(wanted - there):
        faults.append(f"{what}: {name} is missing")
    for name in sorted(there - wanted):
        faults.append(f"{what}: {name} is there, but not in the interface")


def main():
    faults = []
    interfaces = {node.get("name") for node in ElementTree.parse(XML).findall("interface")}
    allowed = check_rules(ElementTree.parse(POLICY), faults)
    compare("bus policy", allowed, interfaces | STANDARD, faults)

    text = XML.read_text(encoding="utf-8")
    named = set(re.findall(r"`(org\.llm\.Service\.[a-z]+(?:-[a-z]+)*)`", text))
    installed = {node.get("id") for node in ElementTree.parse(ACTIONS).findall("action")}
    compare("polkit actions", installed, named, faults)

    for fault in faults:
        print(f"check-policy: {fault}", file=sys.stderr)
    print(f"check-policy: {len(allowed)} interfaces, {len(installed)} actions, "
          f"{len(faults)} faults")
    return 1 if faults or not interfaces else 0


if __name__ == "__main__":
    sys.exit(main())
