#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Brings po/ up to date with the sources: lists the files that have messages in
# po/POTFILES, and merges the messages into each translation. New ones come out
# untranslated, never guessed; those that are gone are dropped. See po/README.md.
set -eu
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GETTEXTDATADIRS="$PWD/po"

extract () {
  xargs xgettext $(cat po/XGETTEXT) --output="$work/$1" </dev/stdin
}

has_messages () {
  rm -f "$work/one.pot"
  echo "$1" | extract one.pot 2>/dev/null && [ -s "$work/one.pot" ]
}

{ find libllmsvc llmctl service data/polkit -name '*.c' -o -name '*.policy' | LC_ALL=C sort
  find clients -name '*.js' | LC_ALL=C sort; } |
while read -r file; do
  ! has_messages "$file" || echo "$file"
done > "$work/POTFILES"
{
  echo "# The files with messages, written by scripts/update-po.sh."
  cat "$work/POTFILES"
  echo po/system-messages.h
} > po/POTFILES

grep -v '^#' po/POTFILES | extract llmsvc.pot
for language in $(grep -v '^#' po/LINGUAS); do
  msgmerge --quiet --no-fuzzy-matching --output-file="$work/merged.po" \
    "po/$language.po" "$work/llmsvc.pot"
  msgattrib --no-obsolete "$work/merged.po" | sed '/^"POT-Creation-Date:/d' > "$work/new.po"
  cp "$work/new.po" "po/$language.po"
  printf '%s: ' "$language"
  msgfmt --check-format --check-domain --statistics --output-file=/dev/null "po/$language.po"
done
