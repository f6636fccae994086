#!/bin/sh
# in_own_temporary.sh leaves nothing behind, and has the command's status.
#   in_own_temporary_test.sh SCRIPT
set -eu
place=$("$1" sh -c "touch \"\$TMPDIR/file\" && mkdir \"\$TMPDIR/folder\" && echo \"\$TMPDIR\"")
[ "$place" != "${TMPDIR:-/tmp}" ]
[ ! -e "$place" ]
"$1" true
if "$1" sh -c "exit 7"; then exit 1; else [ $? -eq 7 ]; fi
