# bash completion for rocattach-watch

_rocattach_watch() {
  local current=${COMP_WORDS[COMP_CWORD]}
  local previous=${COMP_WORDS[COMP_CWORD - 1]}
  COMPREPLY=()

  # Behind "--" stands a command of its own.
  local i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ ${COMP_WORDS[i]} == -- ]] || continue
    if ((COMP_CWORD == i + 1)); then
      mapfile -t COMPREPLY < <(compgen -A command -A file -- "$current")
    elif declare -F _command_offset >/dev/null; then
      _command_offset $((i + 1))
    else
      mapfile -t COMPREPLY < <(compgen -A file -- "$current")
    fi
    return
  done

  # The option that the word belongs to; --pmc takes several.
  local option=$previous
  for ((i = COMP_CWORD - 1; i > 0; --i)); do
    [[ ${COMP_WORDS[i]} == -* ]] || continue
    [[ ${COMP_WORDS[i]} != --pmc ]] || option=--pmc
    break
  done
  # Names that the client knows, which stands beside this program.
  local client=${COMP_WORDS[0]%-watch} kind=
  case $option in
  --pmc) kind=counters ;;
  --set) kind=sets ;;
  -b | --block) kind=blocks ;;
  --arch) kind=architectures ;;
  esac
  if [[ -n $kind && $current != -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W \
      "$("$client" counters --names "$kind" 2>/dev/null)" -- "$current")
    return
  fi

  case $previous in
  -d | --output-directory | --kfd-topology | --pod-logs | --slurm-mapping)
    mapfile -t COMPREPLY < <(compgen -A directory -- "$current")
    return
    ;;
  -o | --output-file | --library | --collector | --socket | --pod-resources | -i | --input | -E | --extra-counters)
    mapfile -t COMPREPLY < <(compgen -A file -- "$current")
    return
    ;;
  -f | --output-format)
    # The client's help names the formats; the part before the last comma is chosen
    # already.
    local formats chosen=''
    [[ $current == *,* ]] && chosen=${current%,*},
    formats=$("$client" convert --help 2>/dev/null |
      tr -s ' \n' ' ' | sed -nE 's/.*separated by commas: ([a-z-]+(, [a-z-]+)*).*/\1/p')
    mapfile -t COMPREPLY < <(compgen -P "$chosen" -W "${formats//,/ }" -- "${current##*,}")
    return
    ;;
  -p | --pid | --process)
    mapfile -t COMPREPLY < <(compgen -W "$(cd /proc && echo [0-9]*)" -- "$current")
    return
    ;;
  -n | --name | --deny)
    mapfile -t COMPREPLY < <(compgen -A command -- "$current")
    return
    ;;
  --cgroup)
    mapfile -t COMPREPLY < <(cd /sys/fs/cgroup && compgen -A directory -- "$current")
    return
    ;;
  --uid)
    mapfile -t COMPREPLY < <(compgen -A user -- "$current")
    return
    ;;
  --hold)
    mapfile -t COMPREPLY < <(compgen -W "yielding signal none" -- "$current")
    return
    ;;
  --capture)
    mapfile -t COMPREPLY < <(compgen -W "auto doorbell intercept" -- "$current")
    return
    ;;
  --backend)
    mapfile -t COMPREPLY < <(compgen -W "auto sdk hsa" -- "$current")
    return
    ;;
  --log-format)
    mapfile -t COMPREPLY < <(compgen -W "text json" -- "$current")
    return
    ;;
  --collection-period-unit)
    mapfile -t COMPREPLY < <(compgen -W "hour min sec msec usec nsec" -- "$current")
    return
    ;;
  --kernel-include-regex | --kernel-exclude-regex | \
    --kernel-iteration-range | --dispatch-range | --gpu | --device-samples | \
    --api-function | -P | --collection-period | --attach-duration-msec | \
    --hold-timeout-msec | --session-wait-msec | --duration-msec | --threads | --ring-slots | --cpu-budget | --disk-budget | --windows-per-second | \
    --processes-per-user | --max-processes | --max-libraries | \
    --max-libraries-per-user | --lines-per-second | --metrics-listen | --metrics-host | --otlp-endpoint | --otlp-interval | \
    --profile-push | --profile-push-interval | \
    --metrics-kernels | --metrics-series | --metrics-counters | --metrics-counters-interval | --node-name | --rotate-size | --rotate-age | \
    --keep-files | --keep-size)
    return
    ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "--auto --attach-running --crash-breaker \
    --no-crash-breaker --dry-run -p --pid --process -n --name --uid --deny --cgroup \
    -d --output-directory -o --output-file -f --output-format --json --log-format \
    -q --quiet --rotate-size --rotate-age --keep-files --keep-size \
    --metrics-listen --metrics-host --otlp-endpoint --otlp-interval \
    --profile-push --profile-push-interval --metrics-kernels --metrics-series \
    --metrics-counters --metrics-counters-interval \
    --node-name --pod-logs --pod-resources --slurm-mapping --hold-timeout-msec --session-wait-msec \
    --pmc --set -b --block --arch -i --input -E --extra-counters --single-pass \
    --kernel-include-regex --kernel-exclude-regex --kernel-iteration-range \
    -P --collection-period --collection-period-unit --attach-duration-msec \
    --device-samples --gpu --dispatch-range --kernel-trace --memory-copy-trace \
    --memory-allocation-trace --scratch-memory-trace --counter-instances \
    -s --sys-trace -r --runtime-trace --hsa-trace --hip-trace --hip-runtime-trace \
    --rccl-trace --marker-trace --api-arguments --stats --api-function --socket --backend --kfd-topology \
    --duration-msec --hold --capture --no-recording --library --collector --threads \
    --ring-slots --cpu-budget --disk-budget \
    --windows-per-second --processes-per-user --max-processes --max-libraries \
    --max-libraries-per-user --lines-per-second -h --help --help-all --version --" -- "$current")
}

complete -o filenames -F _rocattach_watch rocattach-watch
