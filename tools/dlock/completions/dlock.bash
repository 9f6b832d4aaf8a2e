# Completion of dlock in bash. After "--", dlock run completes the command and its files.

_dlock_options() {
    case $1 in
        run) echo "--wait --lease --kind --permits --min-hold --lost --grace --best-effort --keep-url --namespace --url --url-file --help" ;;
        inspect) echo "--kind --json --namespace --url --url-file --help" ;;
        list) echo "--all --names --json --namespace --url --url-file --help" ;;
        watch) echo "--every --for --kind --json --namespace --url --url-file --help" ;;
        top) echo "--once --json --sort --all --every --namespace --url --url-file --help" ;;
        release) echo "--force --kind --json --namespace --url --url-file --help" ;;
        gate) echo "--for --kind --json --namespace --url --url-file --help" ;;
        semaphore) echo "--kind --json --namespace --url --url-file --help" ;;
        latch) echo "--json --namespace --url --url-file --help" ;;
        check) echo "--json --timeout --url --url-file --help" ;;
        provision) echo "--quarantine --json --url --url-file --help" ;;
        bench) echo "--for --json --namespace --url --url-file --help" ;;
        version) echo "--json --help" ;;
    esac
}

_dlock_values() {
    case $1:$2 in
        run:--kind) echo "mutex fair read write permit" ;;
        semaphore:--kind) echo "permit semaphore" ;;
        *:--kind) echo "mutex fair read write semaphore permit latch" ;;
        run:--lost) echo "term kill warn" ;;
        top:--sort) echo "name holder held left waiting grants" ;;
        *:--wait | *:--lease | *:--min-hold | *:--grace | *:--for | *:--every | *:--timeout | *:--quarantine) echo "500ms 5s 30s 2m 1h" ;;
    esac
}

_dlock_verbs() {
    case $1 in
        gate) echo "close open" ;;
        semaphore) echo "set add remove drain reclaim show" ;;
        latch) echo "set down wait show" ;;
        help) echo "run inspect list watch top release gate semaphore latch check provision bench version" ;;
    esac
}

# The index of "--" on the line before the cursor; 0 without one.
_dlock_dashes() {
    local i
    for ((i = 2; i < COMP_CWORD; i++)); do
        if [ "${COMP_WORDS[i]}" = -- ]; then
            echo "$i"
            return
        fi
    done
    echo 0
}

_dlock() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} dashes
    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_dlock_verbs help) help --help --version" -- "$current")
        return
    fi
    dashes=$(_dlock_dashes)
    if [ "$command" = run ] && [ "$dashes" != 0 ]; then
        if declare -F _command_offset >/dev/null; then
            _command_offset $((dashes + 1))
        elif [ "$COMP_CWORD" = $((dashes + 1)) ]; then
            mapfile -t COMPREPLY < <(compgen -c -- "$current")
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
        fi
        return
    fi
    if [ "$before" = --url-file ]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    elif [ -n "$(_dlock_values "$command" "$before")" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_dlock_values "$command" "$before")" -- "$current")
    elif [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_dlock_options "$command")" -- "$current")
    elif [ "$COMP_CWORD" = 2 ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_dlock_verbs "$command")" -- "$current")
    fi
}

complete -F _dlock dlock
