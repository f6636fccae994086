#!/bin/sh
# Runs a command with a temporary directory of its own, which is removed afterwards.
#   in_own_temporary.sh COMMAND [ARGUMENT...]
set -eu
TMPDIR=$(mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
"$@"
