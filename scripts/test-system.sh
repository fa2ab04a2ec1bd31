#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Makes the project's packages, installs them in a fresh Debian 12 and tests them there under its own
# systemd: tests/system/probe.py. Nothing is written into the source tree.
#
#   scripts/test-system.sh [--cache FOLDER] [--mirror URL] [--packages FOLDER] [--log FILE] [--keep]
#
# FOLDER keeps the Debian tree and the packages of the last run, for the next one; without it
# llmsvc/system-test in the user's cache folder. --packages takes those in v1 and v2 of a folder instead
# of making them; --log writes the result as meson does, too, for count-tests.py; --keep leaves the
# container's tree and logs. Ends with status 77 and one line “SKIPPED: …” where a machine can't do this.
set -eu
cd "$(dirname "$0")/.."
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
    *) sed -n '3,13s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  shift
done

# What a small Debian has that runs services for users, and what our packages depend on.
DEBIAN_PACKAGES="systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,polkitd,adduser,procps,\
python3-gi,libglib2.0-bin,libjson-glib-1.0-0,libncursesw6,libreadline8,libsqlite3-0,liburing2,libxxhash0"
BOOT_SECONDS=420

skip () {
  echo "SKIPPED: the packages were not tested under systemd: $1"
  exit 77
}
say () { echo "test-system: $1" >&2; }

[ "$(id -u)" -eq 0 ] || skip "that needs root"
for program in debootstrap systemd-nspawn dpkg-buildpackage dh; do
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

tree="$cache/debian-$(echo "$DEBIAN_PACKAGES" | sha256sum | cut -c1-12)"
if [ ! -d "$tree" ]; then
  say "making a Debian 12 in $tree"
  debootstrap --variant=minbase --include="$DEBIAN_PACKAGES" bookworm "$work/debian" ${mirror:+"$mirror"} \
    >"$work/debootstrap.log" 2>&1 </dev/null ||
    skip "debootstrap failed: $(tail -n 1 "$work/debootstrap.log")"
  rm -rf "$work"/debian/var/cache/apt/archives/*.deb
  rm -rf --one-file-system "$cache"/debian-*
  mv "$work/debian" "$tree"
fi

# Outside of systemd there is nobody to make a scope for the container.
nspawn_options="--quiet --register=no --private-network --link-journal=no --timezone=off --resolv-conf=off"
[ -d /run/systemd/system ] || nspawn_options="$nspawn_options --keep-unit"
cp -a --reflink=auto "$tree" "$work/root"
systemd-nspawn $nspawn_options -D "$work/root" /bin/true >"$work/nspawn.log" 2>&1 </dev/null ||
  skip "systemd-nspawn can't run here: $(tail -n 1 "$work/nspawn.log")"

# --- the packages ---

list_sources () {
  if [ -d .git ] && command -v git >/dev/null; then
    git -c safe.directory="$source" ls-files --cached --others --exclude-standard -z
  else
    find . -path './build*' -prune -o -type f -print0
  fi | xargs -0 sh -c 'for file; do [ ! -f "$file" ] || printf "%s\0" "$file"; done' sh | LC_ALL=C sort -z
}

# build FOLDER: the packages of the copy in $work/source
build () {
  mkdir -p "$1"
  (cd "$work/source" &&
     DEB_BUILD_OPTIONS="nocheck parallel=$(nproc)" dpkg-buildpackage --unsigned-source \
       --unsigned-changes --build=binary --no-pre-clean) >"$work/build.log" 2>&1 </dev/null || {
    tail -n 40 "$work/build.log" >&2
    say "the packages can't be built"
    exit 1
  }
  mv "$work"/*.deb "$work"/*.changes "$work"/*.buildinfo "$1"
}

if [ -z "$packages" ]; then
  list_sources >"$work/sources"
  packages="$cache/packages-$(xargs -0 sha256sum <"$work/sources" | sha256sum | cut -c1-12)"
fi
if [ ! -d "$packages" ]; then
  say "building the packages"
  mkdir "$work/source"
  tar --create --null --files-from="$work/sources" | tar --extract --directory="$work/source"
  build "$work/packages/v1"
  # The same again as the next version, for the upgrade.
  version=$(sed -n "s/^  version: '\(.*\)',$/\1/p" meson.build)
  next="${version%.*}.$((${version##*.} + 1))"
  sed -i "s/^  version: '$version',/  version: '$next',/" "$work/source/meson.build"
  rm -rf "$work/source/debian"
  cp -a debian "$work/source"
  { printf 'llmsvc (%s) unstable; urgency=medium\n\n  * For the test of upgrades.\n\n -- %s  %s\n\n' "$next" \
      "$(sed -n 's/^Maintainer: //p' debian/control)" "$(date -R)"
    cat debian/changelog
  } >"$work/source/debian/changelog"
  build "$work/packages/v2"
  rm -rf "$work/source" "$cache"/packages-*
  mv "$work/packages" "$packages"
fi

# --- the tests ---

root="$work/root/opt/llmsvc-test"
mkdir -p "$root"
cp -r "$packages" "$root/debs"
cp tests/system/probe.py tests/system/rig.py tests/system/sandbox.py data/systemd/development.conf \
  debian/tests/session "$root"
chmod -R go+rX "$root"
cp tests/system/probe.service "$work/root/etc/systemd/system"
mkdir -p "$work/root/etc/systemd/system/multi-user.target.wants"
ln -s ../probe.service "$work/root/etc/systemd/system/multi-user.target.wants"
echo 1 >"$root/stage"

status=0
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
