# Completion of dlock in fish. After "--", dlock run completes the command.

set -l commands run inspect list watch top release gate semaphore latch check provision bench version
set -l located run inspect list watch top release gate semaphore latch check provision bench
set -l named run inspect list watch top release gate semaphore latch bench
set -l printed inspect list watch top release gate semaphore latch check provision bench version
set -l times '500ms 5s 30s 2m 1h'

function __dlock_after_dashes
    set -l words (commandline -opc)
    contains -- run $words; and contains -- -- $words
end

function __dlock_command
    set -l words (commandline -opc)
    set -e words[1]
    set -l from (contains -i -- -- $words)
    test -n "$from"; and set -e words[1..$from]
    complete -C (string join ' ' -- (string escape -- $words) (commandline -ct))
end

complete -c dlock -f
complete -c dlock -n __dlock_after_dashes -a '(__dlock_command)'
complete -c dlock -n __fish_use_subcommand -a run -d 'run a command while a lock is held'
complete -c dlock -n __fish_use_subcommand -a inspect -d 'who holds a lock, for how long, who waits'
complete -c dlock -n __fish_use_subcommand -a list -d 'the locks that are held'
complete -c dlock -n __fish_use_subcommand -a watch -d 'grants, releases and losses as they come'
complete -c dlock -n __fish_use_subcommand -a top -d 'a live table of the locks'
complete -c dlock -n __fish_use_subcommand -a release -d 'take a lock away from its holder'
complete -c dlock -n __fish_use_subcommand -a gate -d 'close a lock for all who want it, open it again'
complete -c dlock -n __fish_use_subcommand -a semaphore -d 'the permits of a semaphore'
complete -c dlock -n __fish_use_subcommand -a latch -d 'the count of a latch; wait for zero'
complete -c dlock -n __fish_use_subcommand -a check -d 'is the server fit to keep locks?'
complete -c dlock -n __fish_use_subcommand -a provision -d 'end the quarantine of a new server'
complete -c dlock -n __fish_use_subcommand -a bench -d 'a short look at what this server gives'
complete -c dlock -n __fish_use_subcommand -a version -d 'the version of the library'
complete -c dlock -n __fish_use_subcommand -a help -d 'the help of a command'
complete -c dlock -n __fish_use_subcommand -l version -d 'show the version'
complete -c dlock -n '__fish_seen_subcommand_from help' -a "$commands"
complete -c dlock -n 'not __dlock_after_dashes' -s h -l help -d 'show help'

complete -c dlock -n "__fish_seen_subcommand_from $located; and not __dlock_after_dashes" -l url -x -d 'the server'
complete -c dlock -n "__fish_seen_subcommand_from $located; and not __dlock_after_dashes" -l url-file -r -F -d 'a file whose first line is the URL'
complete -c dlock -n "__fish_seen_subcommand_from $named; and not __dlock_after_dashes" -l namespace -x -d 'a prefix of the name'
complete -c dlock -n "__fish_seen_subcommand_from $printed; and not __fish_seen_subcommand_from run" -l json -d 'print JSON'

complete -c dlock -n '__fish_seen_subcommand_from run; and not __dlock_after_dashes' -l wait -x -a "$times" -d 'wait for the lock up to this time'
complete -c dlock -n '__fish_seen_subcommand_from run; and not __dlock_after_dashes' -l lease -x -a "$times" -d 'how long the server keeps the lock when this host dies'
complete -c dlock -n '__fish_seen_subcommand_from run; and not __dlock_after_dashes' -l kind -x -a 'mutex fair read write permit' -d 'the kind of lock'
complete -c dlock -n '__fish_seen_subcommand_from run; and not __dlock_after_dashes' -l permits -x -d 'at most so many run at once'
complete -c dlock -n '__fish_seen_subcommand_from run; and not __dlock_after_dashes' -l min-hold -x -a "$times" -d 'keep others out for so long at least'
complete -c dlock -n '__fish_seen_subcommand_from run; and not __dlock_after_dashes' -l lost -x -a 'term kill warn' -d 'what happens when the lock is lost'
complete -c dlock -n '__fish_seen_subcommand_from run; and not __dlock_after_dashes' -l grace -x -a "$times" -d 'the time between SIGTERM and SIGKILL'
complete -c dlock -n '__fish_seen_subcommand_from run; and not __dlock_after_dashes' -l best-effort -d 'run also what cannot be stopped for sure'
complete -c dlock -n '__fish_seen_subcommand_from run; and not __dlock_after_dashes' -l keep-url -d 'the command inherits DLOCK_URL'
complete -c dlock -n '__fish_seen_subcommand_from inspect watch release gate' -l kind -x -a 'mutex fair read write semaphore permit latch' -d 'the kind of lock'
complete -c dlock -n '__fish_seen_subcommand_from semaphore' -l kind -x -a 'permit semaphore' -d 'the kind of semaphore'
complete -c dlock -n '__fish_seen_subcommand_from list top' -l all -d 'free locks, too'
complete -c dlock -n '__fish_seen_subcommand_from list' -l names -d 'only names'
complete -c dlock -n '__fish_seen_subcommand_from watch top' -l every -x -a "$times" -d 'how often to look'
complete -c dlock -n '__fish_seen_subcommand_from watch gate bench' -l for -x -a "$times" -d 'for how long'
complete -c dlock -n '__fish_seen_subcommand_from top' -l once -d 'print the table once'
complete -c dlock -n '__fish_seen_subcommand_from top' -l sort -x -a 'name holder held left waiting grants' -d 'the column to sort by'
complete -c dlock -n '__fish_seen_subcommand_from release' -l force -d 'take the lock away'
complete -c dlock -n '__fish_seen_subcommand_from check' -l timeout -x -a "$times" -d 'how long the check may take'
complete -c dlock -n '__fish_seen_subcommand_from provision' -l quarantine -x -a "$times" -d 'the longest lease of all clients'
complete -c dlock -n '__fish_seen_subcommand_from gate; and not __fish_seen_subcommand_from close open' -a 'close open'
complete -c dlock -n '__fish_seen_subcommand_from semaphore; and not __fish_seen_subcommand_from set add remove drain reclaim show' -a 'set add remove drain reclaim show'
complete -c dlock -n '__fish_seen_subcommand_from latch; and not __fish_seen_subcommand_from set down wait show' -a 'set down wait show'
