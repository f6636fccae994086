# bash completion for rocattach

_rocattach() {
  local current=${COMP_WORDS[COMP_CWORD]}
  local previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command='' i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    if [[ ${COMP_WORDS[i]} != -* ]]; then
      command=${COMP_WORDS[i]}
      break
    fi
  done

  # The option that the word belongs to; --pmc takes several, and so do some of profile's.
  local option=$previous
  for ((i = COMP_CWORD - 1; i > 0; --i)); do
    [[ ${COMP_WORDS[i]} == -* ]] || continue
    case $command${COMP_WORDS[i]} in
    *--pmc | profile-b | profile--block | profile--set) option=${COMP_WORDS[i]} ;;
    esac
    break
  done
  local kind=''
  case $option in
  --pmc) kind=counters ;;
  --set) kind=sets ;;
  -b | --block) kind=blocks ;;
  --arch) kind=architectures ;;
  esac
  if [[ -n $kind && $current != -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W \
      "$("${COMP_WORDS[0]}" counters --names "$kind" 2>/dev/null)" -- "$current")
    return
  fi
  if [[ $command == session && $previous == stop ]]; then
    # Those that are not over.
    mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" session status 2>/dev/null |
      sed -n '/: ended/d; s/^session \([0-9]*\):.*/\1/p')" -- "$current")
    return
  fi

  case $previous in
  --names)
    mapfile -t COMPREPLY < <(compgen -W "counters sets blocks architectures" -- "$current")
    return
    ;;
  -p | --pid | --attach | --attach-pid)
    mapfile -t COMPREPLY < <(compgen -W "$(cd /proc && echo [0-9]*)" -- "$current")
    return
    ;;
  --top | --limit | --threshold | --confidence | --min-share | -n | --name | --kernel-include-regex | \
    --kernel-exclude-regex | --kernel-iteration-range | --dispatch-range | --gpu | \
    --device-samples | --api-function | -P | --collection-period | --attach-duration-msec | \
    --rotate-size | --rotate-age | --keep-files | --keep-size | \
    --tool-timeout-msec | --wait-timeout-msec | --connect | --filter | --interval-msec)
    return
    ;;
  --sort)
    mapfile -t COMPREPLY < <(compgen -W "time dispatches copies bytes pid name" -- "$current")
    return
    ;;
  --collection-period-unit)
    mapfile -t COMPREPLY < <(compgen -W "hour min sec msec usec nsec" -- "$current")
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
  --path | --kfd-topology | -d | --output-directory)
    mapfile -t COMPREPLY < <(compgen -A directory -- "$current")
    return
    ;;
  --groups | --html | --library | --collector | -E | --extra-counters | -i | --input | --socket | -o | \
    --output-file)
    mapfile -t COMPREPLY < <(compgen -A file -- "$current")
    return
    ;;
  --agent-index)
    mapfile -t COMPREPLY < <(compgen -W "absolute relative type-relative" -- "$current")
    return
    ;;
  --rocpd-schema)
    mapfile -t COMPREPLY < <(compgen -W "3.0.0 3.0.1 3.0.2 3.0.3" -- "$current")
    return
    ;;
  --hold)
    mapfile -t COMPREPLY < <(compgen -W "yielding signal" -- "$current")
    return
    ;;
  --attach-tool-library)
    mapfile -t COMPREPLY < <(compgen -A file -- "$current")
    return
    ;;
  -f | --output-format)
    if [[ $command == convert || $command == attach ]]; then
      # The help names the formats; the part before the last comma is chosen already.
      local formats chosen=''
      [[ $current == *,* ]] && chosen=${current%,*},
      formats=$("${COMP_WORDS[0]}" convert --help 2>/dev/null |
        tr -s ' \n' ' ' | sed -nE 's/.*separated by commas: ([a-z-]+(, [a-z-]+)*).*/\1/p')
      mapfile -t COMPREPLY < <(compgen -P "$chosen" -W "${formats//,/ }" -- "${current##*,}")
      return
    fi
    ;;
  -t | --type)
    if [[ $command == attach ]]; then
      mapfile -t COMPREPLY < <(compgen -A file -- "$current")
      return
    fi
    # The help names the types; the part before the last comma is chosen already.
    local types before=''
    [[ $current == *,* ]] && before=${current%,*},
    types=$("${COMP_WORDS[0]}" dump --help 2>/dev/null |
      tr -s ' \n' ' ' | sed -n 's/.*separated by commas: \([a-z_, ]*[a-z_]\).*/\1/p')
    mapfile -t COMPREPLY < <(compgen -P "$before" -W "${types//,/ }" -- "${current##*,}")
    return
    ;;
  esac

  local options
  case $command in
  '') options="attach profile report compare dump convert recover merge counters session top \
    why doctor -h --help --version" ;;
  session)
    options="start stop status -p --pid --pmc --set -b --block --arch -i --input \
      -E --extra-counters --single-pass --kernel-include-regex --kernel-exclude-regex \
      --kernel-iteration-range -P --collection-period --collection-period-unit \
      --attach-duration-msec --device-samples --gpu --dispatch-range --kernel-trace \
      --memory-copy-trace --memory-allocation-trace --scratch-memory-trace \
      -s --sys-trace -r --runtime-trace --hsa-trace --hip-trace --hip-runtime-trace \
      --rccl-trace --marker-trace --api-arguments --stats --api-function \
      --counter-instances \
      --wait --no-wait --socket --json \
      -h --help --help-all"
    ;;
  attach)
    options="-p --pid --attach --cgroup --attach-children --wait --wait-timeout-msec --announce \
      -t --attach-tool-library --tool-timeout-msec --detach-on-eof -d --output-directory -o \
      --output-file -f --output-format --rotate-size --rotate-age --keep-files --keep-size \
      --json --log-format -q --quiet --pmc --set -b --block --arch -i --input \
      -E --extra-counters --single-pass --device-samples --gpu --kernel-include-regex \
      --kernel-exclude-regex --kernel-iteration-range --dispatch-range --kernel-trace \
      --memory-copy-trace --memory-allocation-trace --scratch-memory-trace \
      -s --sys-trace -r --runtime-trace --hsa-trace --hip-trace --hip-runtime-trace \
      --rccl-trace --marker-trace --api-arguments --stats --api-function \
      --counter-instances \
      -P --collection-period --collection-period-unit --attach-duration-msec \
      --hold-timeout-msec --session-wait-msec --capture --ring-slots --no-recording --library --collector \
      --backend --kfd-topology -h --help --help-all"
    ;;
  profile)
    options="-n --name --path --output-directory -b --block --set --no-roof --arch --extra-counters \
      --attach-pid --attach-duration-msec --wait --wait-timeout-msec --announce \
      --hold-timeout-msec --session-wait-msec --library --collector \
      --kfd-topology -V --verbose -h --help --help-all"
    ;;
  counters) options="--json --arch --extra-counters --names -h --help" ;;
  report) options="-f --follow --json --top --limit --groups --html --force -h --help" ;;
  compare) options="--json --threshold --confidence --min-share --top -h --help" ;;
  convert)
    options="-f --output-format -d --output-directory -o --output-file --agent-index \
      --rocpd-schema --follow --when-ended -q --quiet --force -h --help"
    ;;
  recover) options="-o --output-file -h --help" ;;
  merge) options="-o --output-file --sync-error-usec -h --help" ;;
  dump) options="-f --follow --json -t --type -h --help" ;;
  top) options="--connect --sort --filter --interval-msec --once --json -h --help" ;;
  why) options="-i --input --socket --json -h --help" ;;
  doctor) options="-v --verbose --json --hold --library --collector -h --help" ;;
  *) return ;;
  esac
  if [[ -z $command || $command == doctor || $command == counters || $command == session || $command == top || $command == profile || $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  else
    # Recordings, and the directories on the way to them.
    mapfile -t COMPREPLY < <(
      compgen -A directory -- "$current"
      compgen -A file -X '!*.rwa' -- "$current"
    )
  fi
}

complete -o filenames -F _rocattach rocattach
