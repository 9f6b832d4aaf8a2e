#!/bin/sh
# smoke.sh WHAT...: try an installed libdlock against a redis-server of its own. WHAT: command, man, python, lua, node, go, or the path
# of a program (smoke.c or smoke.rs, compiled). Each opens a client, acquires a lock, hears that it was lost, acquires it again and releases it.
# It runs where a package was installed, so it is plain sh and needs nothing but redis-server.
set -eu

here=$(cd -- "$(dirname -- "$0")" && pwd -P)
work=$(mktemp -d)
unset DLOCK_LIBRARY LD_LIBRARY_PATH PYTHONPATH LUA_PATH PKG_CONFIG_PATH

finish() {
    kill "$server" 2>/dev/null && wait "$server" || true
    rm -rf "$work"
}

redis-server --port 0 --unixsocket "$work/redis.sock" --dir "$work" --save '' --appendonly no >"$work/redis.log" 2>&1 &
server=$!
trap finish EXIT
tries=0
until redis-cli -s "$work/redis.sock" ping >"$work/ping" 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -le 300 ] || { cat "$work/redis.log"; echo "smoke: redis-server does not answer"; exit 1; }
    sleep 0.1
done
export DLOCK_URL="redis+unix://$work/redis.sock"

# The command: a lock is held while a command runs, refused to others, taken away by force; the loss ends the command (exit code 76).
command() {
    dlock version
    dlock run --wait 0 smoke-command -- sh -c '! dlock run --wait 0 smoke-command -- true' 2>"$work/refused"
    grep -q smoke-command "$work/refused"
    code=0
    dlock run --lease 1500ms smoke-command -- sh -c 'dlock release --force smoke-command && exec sleep 60' || code=$?
    [ "$code" = 76 ] || { echo "smoke: exit code $code after a loss"; exit 1; }
    dlock run --wait 10s smoke-command -- true
}

manual() {
    for page in "1 dlock" "7 dlock" "7 dlock_options"; do
        # shellcheck disable=SC2086 # two words
        man $page >"$work/page" && grep -q '^NAME' "$work/page" && grep -qi dlock "$work/page" || { echo "smoke: man $page"; exit 1; }
    done
}

for what in "$@"; do
    case $what in
        command) command ;;
        man) manual ;;
        python) python3 "$here/smoke.py" ;;
        lua) luajit "$here/smoke.lua" ;;
        node) node "$here/smoke.mjs" && node "$here/smoke.cjs" ;;
        go) (cd "$work" && cp "$here/smoke.go" . && GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE=$work/cache go run smoke.go) ;;
        *) "$what" ;;
    esac || { echo "smoke: $what failed"; exit 1; }
    echo "smoke: $what works"
done
