#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Builds the project's packages in a fresh Debian 12 that has what debian/control names, with their own
# tests, installs them with apt in another one and tests them there under its own systemd:
# tests/system/probe.py. Nothing is written into the source tree.
#
#   scripts/test-system.sh [--cache FOLDER] [--mirror URL] [--packages FOLDER] [--log FILE] [--keep]
#
# FOLDER keeps the Debian trees and the packages of the last run, for the next one; without it
# llmsvc/system-test in the user's cache folder. --packages takes those in v1 and v2 of a folder instead
# of making them; --log writes the result as meson does, too, for count-tests.py; --keep leaves the
# container's tree and logs. Ends with status 77 and one line “SKIPPED: …” where a machine can't do this.
set -eu
cd "$(dirname "$0")/.."
. scripts/debian.sh
source=$PWD

cache="${XDG_CACHE_HOME:-$HOME/.cache}/llmsvc/system-test"
mirror=
packages=
log=
keep=
while [ $# -gt 0 ]; do
  case $1 in
    --cache) cache=$2; shift ;;
    --mirror) mirror=$2; shift ;;
    --packages) packages=$2; shift ;;
    --log) log=$2; shift ;;
    --keep) keep=yes ;;
    *) sed -n '3,14s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  shift
done

# What a small Debian has that runs services for users, and what the tests run. Nothing that our packages
# need: apt finds that.
DEBIAN_PACKAGES="systemd systemd-sysv dbus dbus-user-session libpam-systemd polkitd adduser procps python3-gi
  libglib2.0-bin"
# Of ours, those that are tested here; the monitor would bring a desktop.
OWN_PACKAGES="libllmsvc-0 gir1.2-llmsvc-0 llmsvc llmsvc-model-demo"
BOOT_SECONDS=420

skip () {
  echo "SKIPPED: the packages were not tested under systemd: $1"
  exit 77
}
say () { echo "test-system: $1" >&2; }

[ "$(id -u)" -eq 0 ] || skip "that needs root"
for program in debootstrap systemd-nspawn lintian; do
  command -v "$program" >/dev/null || skip "there is no $program (scripts/packages.sh names the packages)"
done
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
work=$(mktemp -d "$cache/run.XXXXXX")
container=
clean_up () {
  [ -z "$container" ] || kill "$container" 2>/dev/null || true
  if [ -n "$keep" ]; then say "left: $work"; else rm -rf --one-file-system "$work"; fi
}
trap clean_up EXIT
trap 'exit 129' HUP INT TERM

# --- Debian ---

# make_tree NAME COMMAND: in $tree, the smallest Debian and what COMMAND, as root there, adds
make_tree () {
  tree="$cache/$1-$({ echo "$2"; cat debian/control; } | sha256sum | cut -c1-12)"
  [ -d "$tree" ] && return
  say "making a Debian 12 in $tree"
  copy_tree "$base" "$work/tree"
  mkdir "$work/tree/control"
  cp -r debian "$work/tree/control"
  enter "$work/tree" disk "apt-get -qq update" >"$work/tree.log" 2>&1 ||
    skip "apt failed: $(tail -n 1 "$work/tree.log")"
  enter "$work/tree" disk "$2" >"$work/tree.log" 2>&1 || {
    tail -n 5 "$work/tree.log" >&2
    say "failed: $2"
    exit 1
  }
  rm -rf "$work"/tree/var/cache/apt/archives/*.deb
  rm -rf --one-file-system "$cache/$1"-*
  mv "$work/tree" "$tree"
}

make_base "$work/debootstrap.log" || skip "debootstrap failed: $(tail -n 1 "$work/debootstrap.log")"
make_tree build "cd /control && apt-get -qq -y build-dep ./"
build_tree=$tree
make_tree debian "apt-get -qq -y install --no-install-recommends $(echo $DEBIAN_PACKAGES)"

# Outside of systemd there is nobody to make a scope for the container.
nspawn_options="--quiet --register=no --private-network --link-journal=no --timezone=off --resolv-conf=off"
[ -d /run/systemd/system ] || nspawn_options="$nspawn_options --keep-unit"
copy_tree "$tree" "$work/root"
systemd-nspawn $nspawn_options -D "$work/root" /bin/true >"$work/nspawn.log" 2>&1 </dev/null ||
  skip "systemd-nspawn can't run here: $(tail -n 1 "$work/nspawn.log")"

# --- the packages ---

# build OPTIONS FOLDER: the packages of the tree in $work/build
build () {
  enter "$work/build" disk "cd /src/llmsvc && DEB_BUILD_OPTIONS='$1 parallel=$(nproc)' dpkg-buildpackage \
    --unsigned-source --unsigned-changes --build=binary --no-pre-clean" >"$work/build.log" 2>&1 || {
    tail -n 40 "$work/build.log" >&2
    say "the packages can't be built"
    exit 1
  }
  mkdir -p "$2"
  mv "$work"/build/src/*.deb "$work"/build/src/*.changes "$work"/build/src/*.buildinfo "$2"
}

if [ -z "$packages" ]; then
  packages="$cache/packages-$(list_sources | xargs -0 sha256sum | sha256sum | cut -c1-12)"
fi
if [ ! -d "$packages" ]; then
  say "building the packages"
  copy_tree "$build_tree" "$work/build"
  copy_sources "$work/build/src/llmsvc"
  build "" "$work/packages/v1"
  # The same again as the next version, for the upgrade.
  version=$(sed -n "s/^  version: '\(.*\)',$/\1/p" meson.build)
  next="${version%.*}.$((${version##*.} + 1))"
  sed -i "s/^  version: '$version',/  version: '$next',/" "$work/build/src/llmsvc/meson.build"
  rm -rf "$work/build/src/llmsvc/debian"
  cp -a debian "$work/build/src/llmsvc"
  { printf 'llmsvc (%s) unstable; urgency=medium\n\n  * For the test of upgrades.\n\n -- %s  %s\n\n' "$next" \
      "$(sed -n 's/^Maintainer: //p' debian/control)" "$(date -R)"
    cat debian/changelog
  } >"$work/build/src/llmsvc/debian/changelog"
  build nocheck "$work/packages/v2"
  rm -rf --one-file-system "$work/build" "$cache"/packages-*
  mv "$work/packages" "$packages"
fi

# --- the tests ---

root="$work/root/opt/llmsvc-test"
mkdir -p "$root"
cp -r "$packages" "$root/debs"
# The container has no network; what our packages depend on is downloaded before, for apt to find.
enter "$work/root" disk "cd /opt/llmsvc-test/debs/v1 && apt-get -qq -y --no-install-recommends --download-only \
  install $(printf './%s_*.deb ' $OWN_PACKAGES)" >"$work/download.log" 2>&1 || {
  tail -n 5 "$work/download.log" >&2
  say "what the packages depend on can't be had"
  exit 1
}
cp tests/system/probe.py tests/system/rig.py tests/system/sandbox.py data/systemd/development.conf \
  debian/tests/session "$root"
chmod -R go+rX "$root"
cp tests/system/probe.service "$work/root/etc/systemd/system"
mkdir -p "$work/root/etc/systemd/system/multi-user.target.wants"
ln -s ../probe.service "$work/root/etc/systemd/system/multi-user.target.wants"
echo 1 >"$root/stage"

status=0
if lintian --allow-root --display-info --fail-on error,warning,info "$packages"/v1/*.changes >"$work/lintian.txt" 2>&1; then
  echo "ok 900 - lintian finds nothing"
else
  echo "not ok 900 - lintian finds nothing"
  sed 's/^/# /' "$work/lintian.txt"
fi | tee "$work/result.tap"
for boot in 1 2; do
  say "boot $boot"
  : >"$root/result.tap"
  timeout --kill-after=10 "$BOOT_SECONDS" systemd-nspawn $nspawn_options --boot -D "$work/root" \
    >"$work/boot-$boot.log" 2>&1 </dev/null &
  container=$!
  wait "$container" || true
  container=
  cat "$root/result.tap"
  cat "$root/result.tap" >>"$work/result.tap"
  grep -q '^1\.\.' "$root/result.tap" || {
    echo "not ok 999 - boot $boot came to its end" | tee -a "$work/result.tap"
    tail -n 20 "$work/boot-$boot.log" "$root/result.log" >&2
    break
  }
done

good=$(grep -c '^ok ' "$work/result.tap") || true
bad=$(grep -c '^not ok ' "$work/result.tap") || true
[ "$bad" -eq 0 ] && [ "$good" -gt 0 ] || status=1
if [ "$status" -ne 0 ]; then
  cp "$root"/journal-*.log "$root/result.log" "$work"/boot-*.log "$cache" 2>/dev/null || true
  say "journals and logs are in $cache"
fi
if [ -n "$log" ]; then
  python3 - "$work/result.tap" "$status" >"$source/$log" <<'PYTHON'
import json, sys
text = open(sys.argv[1], encoding="utf-8").read()
print(json.dumps({"name": "system", "result": "OK" if sys.argv[2] == "0" else "FAIL", "stdout": text}))
PYTHON
fi
echo "$good passed, $bad failed under systemd"
exit $status
