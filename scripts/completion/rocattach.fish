# fish completion for rocattach. Options, their descriptions and subcommands are read
# from --help, so that they are those of the installed version.

# Lines of --help as NAME, a tab and DESCRIPTION. $argv[1]: what the lines begin with,
# options or subcommands. Descriptions may stand on the next line.
function __rocattach_help
    awk -v kind="$argv[1]" '
    function flush() {
      for (i = 1; i <= count; ++i) {
        name = names[i]
        sub(/\{.*/, "", name)
        print name "\t" text
      }
      count = 0
    }
    /^[A-Z][A-Za-z ]*:$/ { flush(); subcommands = ($0 == "Subcommands:"); next }
    /^(Examples|Exit status)/ { exit }
    kind == "options" && /^  -/ || kind == "subcommands" && subcommands && /^  [a-z]/ {
      flush()
      count = split($1, names, ",")
      text = substr($0, 29, 2) == "  " ? substr($0, 31) : ""
      next
    }
    count > 0 && substr($0, 1, 30) ~ /^ +$/ { if (text == "") text = substr($0, 31) }
    END { flush() }'
end

# Options of the program, or of the subcommand that the command line names.
function __rocattach_options
    set -l words (commandline -opc)
    set -l command $words[1]
    if string match -qr '(^|/)rocattach$' -- $words[1]; and set -q words[2]
        set command $words[1..2]
    end
    set -l lines ($command --help-all 2>/dev/null | __rocattach_help options)
    # Subcommands with few options have only --help.
    if test (count $lines) -lt 2
        set lines ($command --help 2>/dev/null | __rocattach_help options)
    end
    string join \n -- $lines
end

function __rocattach_subcommands
    set -l program (commandline -opc)[1]
    $program --help 2>/dev/null | __rocattach_help subcommands
end

function __rocattach_names
    set -l program (commandline -opc)[1]
    set -l client (string replace -r -- '-watch$' '' $program)
    $client counters --names $argv[1] 2>/dev/null
end

function __rocattach_after
    contains -- (commandline -opc)[-1] $argv
end

for program in rocattach rocattach-watch
    complete -c $program -n 'string match -q -- "-*" (commandline -ct)' \
        -a '(__rocattach_options)'
    complete -c $program -f -n '__rocattach_after --pmc' -a '(__rocattach_names counters)'
    complete -c $program -f -n '__rocattach_after --set' -a '(__rocattach_names sets)'
    complete -c $program -f -n '__rocattach_after -b --block' \
        -a '(__rocattach_names blocks)'
    complete -c $program -f -n '__rocattach_after --arch' \
        -a '(__rocattach_names architectures)'
    complete -c $program -f -n '__rocattach_after --uid' -a '(__fish_complete_users)'
    complete -c $program -f \
        -n '__rocattach_after -p --pid --process --attach --attach-pid' \
        -a '(__fish_complete_pids)'
end
complete -c rocattach -f -n 'test (count (commandline -opc)) -eq 1' \
    -a '(__rocattach_subcommands)'
