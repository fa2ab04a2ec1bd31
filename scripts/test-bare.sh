#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Runs the commands of README.md as a newcomer does, as root in a fresh Debian 12 that has nothing else:
# ./try, the packages, ./check. Once with /tmp on a disk, once with /tmp as a tmpfs. Needs root and the
# network, and more than half an hour.
#
#   scripts/test-bare.sh [--cache FOLDER] [--mirror URL] [--tmp disk|tmpfs] [--keep]
#
# FOLDER keeps the Debian tree for the next run; without it llmsvc/system-test in the user's cache folder.
# --keep leaves the trees. The last lines of each command go to the output, all of them to
# build-bare/TMP-COMMAND.log. Ends with status 1 when a command failed.
set -eu
cd "$(dirname "$0")/.."
. scripts/debian.sh

cache="${XDG_CACHE_HOME:-$HOME/.cache}/llmsvc/system-test"
mirror=
temporaries="disk tmpfs"
keep=
while [ $# -gt 0 ]; do
  case $1 in
    --cache) cache=$2; shift ;;
    --mirror) mirror=$2; shift ;;
    --tmp) temporaries=$2; shift ;;
    --keep) keep=yes ;;
    *) sed -n '3,12s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  shift
done
mkdir -p "$cache" build-bare
work=$(mktemp -d "$cache/bare.XXXXXX")
clean_up () {
  [ -n "$keep" ] || rm -rf --one-file-system "$work"
}
trap clean_up EXIT
trap 'exit 129' HUP INT TERM
make_base "$work/debootstrap.log" || { tail -n 3 "$work/debootstrap.log" >&2; exit 1; }

# What README.md says to type under a heading: its first block of commands. There is no sudo, but root.
read_block () {
  awk -v heading="## $1" '$0 == heading { found = 1; next }
    found && /^    / { print substr($0, 5); printed = 1; next }
    printed { exit }' README.md | sed 's/ *#.*//; s/\bsudo //'
}

status=0
# run NAME COMMAND
run () {
  log="build-bare/$tmp-$1.log"
  began=$(date +%s)
  code=0
  enter "$root" "$tmp" "cd /root/llmsvc && $2" >"$log" 2>&1 || code=$?
  [ "$code" -eq 0 ] || status=1
  echo "== /tmp: $tmp; $1: status $code after $(($(date +%s) - began)) s"
  tail -n "${lines:-3}" "$log"
}

for tmp in $temporaries; do
  root="$work/$tmp"
  copy_tree "$base" "$root"
  copy_sources "$root/root/llmsvc"
  # the sources lie on the disk in any case
  run try "$(read_block 'Try it')"
  # No bus runs here that would start the service: scripts/test-system.sh asks it, under systemd.
  run packages "apt-get -qq update && set -e && export DEBIAN_FRONTEND=noninteractive && $(
    read_block 'Install it' | grep -v '^llmctl' | sed 's/apt-get build-dep/& -y -q/; s/apt install/& -y -q/')"
  lines=6 run check "./check"
  rm -rf --one-file-system "$root"
done
exit "$status"
