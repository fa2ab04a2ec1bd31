#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Writes docs/captures/packaging/*.txt: the packages, what lintian and systemd say of them, and the
# system tests. Options go to scripts/test-system.sh, which makes the packages.
set -eu
cd "$(dirname "$0")/.."
out=docs/captures/packaging
cache="${XDG_CACHE_HOME:-$HOME/.cache}/llmsvc/system-test"
packages=
previous=
for argument in "$@"; do
  case $previous in
    --cache) cache=$argument ;;
    --packages) packages=$argument ;;
  esac
  previous=$argument
done
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

status=0
scripts/test-system.sh "$@" >"$work/tests.txt" || status=$?
[ "$status" -lt 2 ] || { cat "$work/tests.txt" >&2; exit "$status"; }
{ echo "$ scripts/test-system.sh"; cat "$work/tests.txt"; } >"$out/system-test.txt"

[ -n "$packages" ] || packages=$(ls -d "$cache"/packages-*)
mkdir "$work/root"
dpkg-deb --extract "$packages"/v1/llmsvc_*.deb "$work/root"
unit=$(find "$work/root" -path '*/systemd/system/llmsvc.service')
user_unit=$(find "$work/root" -path '*/systemd/user/llmsvc.service' -type f)
# score UNIT: the table without its pictures
score () {
  systemd-analyze security --offline=true --no-pager "$1" | sed 's/ *[^ -~]*$//;s/^→ //;/^$/d'
}
{
  echo "$ systemd-analyze security --offline=true llmsvc.service"
  score "$unit"
  echo
  echo "The user's unit, of which most is not a user's manager's to give:"
  score "$user_unit" | tail -n 1
} >"$out/security-score.txt"

{
  echo "$ lintian --display-info --show-overrides llmsvc_*.changes"
  lintian --allow-root --display-info --show-overrides "$packages"/v1/llmsvc_*.changes 2>&1 || true
} >"$out/lintian.txt"

{
  printf '%-20s %-8s %-6s %10s  %s\n' Package Version Arch Bytes Depends
  for file in "$packages"/v1/*.deb; do
    case $file in *-dbgsym_*) continue ;; esac
    # shellcheck disable=SC2016
    dpkg-deb --show --showformat='${Package} ${Version} ${Architecture}' "$file" |
      { read -r name version architecture
        printf '%-20s %-8s %-6s %10s  %s\n' "$name" "$version" "$architecture" "$(stat -c %s "$file")" \
          "$(dpkg-deb --field "$file" Depends)"; }
  done
  for file in "$packages"/v1/*.deb; do
    case $file in *-dbgsym_*) continue ;; esac
    printf '\n%s\n' "$(dpkg-deb --field "$file" Package)"
    dpkg-deb --fsys-tarfile "$file" | tar --list --verbose |
      awk '$1 !~ /^d/ && $6 !~ /libllmsvc-doc\/llmsvc\/./ { printf "  %s %10s %s %s %s\n", $1, $3, $6, $7, $8 }' |
      sed 's| \./| /|;s/ *$//'
  done
  echo
  echo "(libllmsvc-doc has the documentation in /usr/share/doc/libllmsvc-doc/llmsvc.)"
} >"$out/packages.txt"
exit "$status"
