#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Writes docs/captures/packaging/install.txt: from packages to the first answer, on a small Debian 12
# that has booted in a container. Takes the Debian and the packages that scripts/test-system.sh has
# left in its cache: run that before. That Debian has the libraries that the packages depend on, and no network. As root.
#
# Usage: scripts/capture-install.sh [CACHE]
set -eu
cd "$(dirname "$0")/.."
cache=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/llmsvc/system-test}
work=$(mktemp -d "$cache/install.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT

cp -a --reflink=auto "$cache"/debian-* "$work/root"
mkdir "$work/root/root/packages"
cp "$cache"/packages-*/v1/*.deb "$work/root/root/packages"
cat >"$work/root/root/install.sh" <<'SCRIPT'
cd /root/packages
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
begin=$(date +%s%N)
# as it is typed, its output without what only a terminal can show, and when it was over
show () {
  echo "\$ $1"
  sh -c "$1" 2>&1 | sed 's/\r*$//; s/.*\r//' | grep -v '^debconf: delaying'
  tenths=$((($(date +%s%N) - begin) / 100000000))
  echo "[after $((tenths / 10)).$((tenths % 10)) s]"
  echo
}
{
  show 'apt-get -q install -y --no-install-recommends ./libllmsvc-0_*.deb ./llmsvc_*.deb ./llmsvc-model-demo_*.deb'
  show 'llmctl ask --temperature 0 "I want a restaurant in San Jose."'
  show 'llmctl status'
} >/root/install.txt 2>&1 </dev/null
SCRIPT
cat >"$work/root/etc/systemd/system/install.service" <<'UNIT'
[Unit]
After=multi-user.target dbus.service
[Service]
Type=oneshot
ExecStart=/bin/sh /root/install.sh
ExecStopPost=/usr/bin/systemctl poweroff --no-block
UNIT
mkdir -p "$work/root/etc/systemd/system/multi-user.target.wants"
ln -s ../install.service "$work/root/etc/systemd/system/multi-user.target.wants"
options="--quiet --register=no --private-network --link-journal=no --timezone=off --resolv-conf=off"
[ -d /run/systemd/system ] || options="$options --keep-unit"
timeout --kill-after=10 240 systemd-nspawn $options --boot -D "$work/root" >"$work/boot.log" 2>&1 </dev/null || true
[ -s "$work/root/root/install.txt" ] || { tail -n 20 "$work/boot.log" >&2; exit 1; }
cp "$work/root/root/install.txt" docs/captures/packaging/install.txt
