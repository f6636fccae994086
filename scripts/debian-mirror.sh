#!/usr/bin/env bash
# Sourced: mirror_of prints where this machine's apt gets one of Debian's archives from
# ("debian", the default, or "debian-security"); nothing if it has none.
mirror_of() {
  local label=Debian uri
  [ "${1:-debian}" != debian-security ] || label=Debian-Security
  # shellcheck disable=SC2016 # apt's own variables
  uri=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' |
    sed -n "s/^$label //p" | sort -u | head -1)
  echo "${uri%/}"
}
