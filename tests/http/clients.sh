#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Clients that others wrote (openai, ai with @ai-sdk/openai-compatible, @langchain/openai) at an endpoint:
# by hand, as they come from npm. Node 20 and npm have to be there.
#
#   tests/http/clients.sh http://127.0.0.1:8645/v1 KEY
set -eu
[ $# -eq 2 ] || { sed -n '3,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "$(dirname "$0")/clients.mjs" "$folder"
cd "$folder"
echo '{"type": "module", "private": true}' >package.json
npm install --silent --no-fund --no-audit openai ai @ai-sdk/openai-compatible @langchain/openai @langchain/core zod
npm list --depth=0 | tail -n +2
node clients.mjs "$1" "$2"
