#!/usr/bin/env bash
# Sourced by scripts that make people wait.

# show_progress NAME: reads lines "DONE TOTAL TEXT" and prints "NAME: TEXT" with the time
# that has passed: on a terminal in one line that is overwritten, elsewhere a line for
# every 5 percent, and when nothing else was printed for ten seconds.
show_progress() {
  local name=$1 begin=$SECONDS said_at=$SECONDS said=-5 percent=0
  local completed total text='' part='' rest line status
  while :; do
    status=0
    IFS= read -r -t 2 rest || status=$?
    part+=$rest # when the time is up, perhaps only the beginning of a line
    if [ "$status" -eq 0 ]; then
      read -r completed total text <<<"$part"
      part=''
      percent=$((total > 0 ? 100 * completed / total : 0))
    elif [ "$status" -le 128 ]; then
      break # no more lines
    elif [ -z "$text" ]; then
      continue
    fi
    printf -v line '%s: %s, %d:%02d min' "$name" "$text" \
      $(((SECONDS - begin) / 60)) $(((SECONDS - begin) % 60))
    if [ -t 1 ]; then
      printf '\r\e[K%s' "$line"
    elif [ $((percent - said)) -ge 5 ] || [ "$percent" -lt "$said" ] ||
      [ $((SECONDS - said_at)) -ge 10 ]; then
      echo "$line"
      said=$percent
      said_at=$SECONDS
    fi
  done
  [ -z "$text" ] || [ ! -t 1 ] || echo
}
