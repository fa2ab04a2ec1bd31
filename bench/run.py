#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs a benchmark that is written in Python: run.py COMMAND [OPTION…].

llmsvc-bench does so for its commands of these names, and tells by $LLMSVC_BENCH where it is.
"""
import importlib
import pathlib
import sys

# What reads and writes model files is shared with what prepares models.
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "offline"))

# There is a package of that name.
OTHER_NAMES = {"active": "sparse"}

name = OTHER_NAMES.get(sys.argv[1], sys.argv[1])
sys.exit(importlib.import_module(name + ".main").main(sys.argv[2:]))
