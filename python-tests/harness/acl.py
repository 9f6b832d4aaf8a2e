"""The rights that each feature needs, read from the scripts and from src/redis/codec/kinds.c. Writes docs/acl.md.

    python3 python-tests/harness/acl.py > docs/acl.md

    rights("fair", "billing")                       # .commands, .keys, .channels for the names of a namespace
    rights("fair", "billing").rules()               # ["+evalsha", ..., "~billing:*", ..., "&dlock_client:billing:*", ...]
    rights("fair", "billing", braces=True)          # for the names with braces
"""
from __future__ import annotations

import dataclasses
import importlib.util
import pathlib
import re
import shlex
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("embed", ROOT / "src/redis/scripts/embed.py")
assert spec and spec.loader
embed = importlib.util.module_from_spec(spec)
spec.loader.exec_module(embed)

# Feature -> kinds of src/redis/codec/kinds.c, and scripts beside those of the kinds.
FEATURES: dict[str, tuple[list[str], list[str]]] = {
    "mutex": (["MUTEX"], ["export", "adopt", "disown", "batch_acquire", "batch_release"]), "fair": (["FAIR"], []), "read-write": (["READ", "WRITE"], []),
    "semaphore": (["SEMAPHORE"], []), "permit-semaphore": (["PERMIT_SEMAPHORE"], []), "latch": (["LATCH"], []),
    "multi": ([], ["multi_acquire"]), "inspect": ([], ["inspect"]), "gate": ([], ["gate"]), "transaction": ([], []),
}  # fmt: skip
WHAT = {
    "multi": "besides what its members need; used when mutexes share a slot and are taken in one step",
    "inspect": "besides what the kind needs", "gate": "besides what the kind needs",
    "transaction": "allow your own keys instead, and only the commands that you use",
}  # fmt: skip
ALWAYS = ["client|setname", "eval", "evalsha", "ping"]
WAITING = ["subscribe", "unsubscribe"]
TRANSACTION = ["client|setname", "ping", "watch", "unwatch", "multi", "exec", "get", "set", "del", "incrby"]
HEADER = (ROOT / "src/redis/codec/kinds.h").read_text()
SHARED = dict(re.findall(r'#define DLI_(\w+)_PATTERN +"([^"]*)"', HEADER))  # patterns of keys that other files need too
GATE = SHARED["GATE"]
SUBCOMMANDS = {"PUBSUB": "pubsub|numsub"}


def kinds() -> dict[str, dict[str, list[str]]]:
    """Kind -> keys, channel and scripts, as the table has them."""
    text = (ROOT / "src/redis/codec/kinds.c").read_text()
    words = dict(re.findall(r'#define (\w+)\s+"([^"]*)"', text), **SHARED)
    found = {}
    for kind, row in re.findall(r"\.id = DLOCK_KIND_(\w+),(.*?)\n    \},", text, re.S):
        keys = re.findall(r'"[^"]*"|\w+', re.findall(r"\.key = \{(.*?)\}", row, re.S)[0])
        found[kind] = {
            "keys": [key.strip('"') if key[0] == '"' else words[key] for key in keys],
            "channel": re.findall(r'\.channel = "([^"]*)"', row),
            "scripts": [name.lower() for name in re.findall(r"DLI_SCRIPT_(\w+)", row)],
        }
    return found


def commands_of(script: str) -> set[str]:
    text = "\n".join(embed.load(next((ROOT / "src/redis/scripts").glob(f"*/{script}.lua"))))
    called = set(re.findall(r"\b(?:p?call|ask)\('([A-Z]+)'", text))
    seen = set(re.findall(r"\(\s*'([A-Z]{3,})'", text)) - {"WRONGTYPE"}
    assert called and called == seen, f"{script}: {seen - called} may be commands"
    return {SUBCOMMANDS.get(name, name.lower()) for name in called}


def escaped(namespace: str) -> str:
    """The namespace in a pattern: what has a meaning there stands for itself."""
    return re.sub(r"([*?\[\]\\])", r"\\\1", namespace)


def pattern(text: str, namespace: str, braces: bool) -> str:
    """A key pattern of kinds.c for all names of a namespace that have braces, or have none."""
    name = escaped(namespace) + ":*"
    text = text.replace("{=}", "{" + name).replace("=", name)
    text = text.replace("%", "::").replace("@", name) if braces else text.replace("%", ":").replace("@", "{" + name)
    end = text.find(name)
    return text[: end + len(name)] if end >= 0 else text


@dataclasses.dataclass
class Rights:
    commands: list[str]
    keys: list[str]
    channels: list[str]

    def rules(self) -> list[str]:
        return ["+" + name for name in self.commands] + ["~" + key for key in self.keys] + ["&" + name for name in self.channels]


def rights(feature: str, namespace: str, braces: bool = False) -> Rights:
    table, (names, scripts) = kinds(), FEATURES[feature]
    if feature == "transaction":
        return Rights(TRANSACTION, ["stock:*"], [])
    members = names or (["MUTEX"] if feature != "latch" else [])
    called: set[str] = set(ALWAYS + WAITING)
    for script in [*scripts, *(script for name in names for script in table[name]["scripts"])]:
        called |= commands_of(script)
    if not names:
        called -= set(WAITING)
    keys = [pattern(key, namespace, braces) for name in members for key in [*table[name]["keys"], GATE]]
    channels = [f"dlock_client:{escaped(namespace)}:*", *(pattern(table[name]["channel"][0], namespace, braces) for name in members)]
    unique = [list(dict.fromkeys(part)) for part in (sorted(called), keys, channels)]
    return Rights(*unique)


HEAD = """\
# Rights on the server

This page lists the rights that a user of the server needs for each feature, as `ACL SETUSER` writes them (Redis 6 and newer). It is
written by [a script](../python-tests/harness/acl.py) from the library's own scripts. [A test](../python-tests/servers/test_acl.py) runs every feature with exactly these
rights, and with each one of them missing.

The patterns are for the names in one namespace, `billing` (the option `namespace`). Put yours in its place everywhere;
[several tenants](#several-tenants) says what it may look like. A user of several features needs the rights of each. A user for mutexes, as
you type it in a shell:

```sh
redis-cli ACL SETUSER billing reset on '>secret' resetchannels -@all {example}
```

- Other users of the host may see this line while it runs. `'#HASH'` in place of `'>secret'`, with the SHA-256 hash of the password, keeps the
  password out of it.
- `reset` takes away what the user had before. To add rights later, name only them: `redis-cli ACL SETUSER billing +scan`.
- Redis does not copy users to other servers. Make the user on each: the primary and its replicas, all servers of a cluster or a quorum. A
  replica that does not know it and becomes the primary refuses the login, and all calls answer `DLOCK_DENIED`.
- A restart forgets the user, unless you say `ACL SAVE` (with `aclfile`) or `CONFIG REWRITE`.
- *Names with braces*, such as `billing:{{x}}`, have other keys and channels. If you use such names, give them as well: where a pattern has
  `{{billing:*`, write `:billing:*` if it begins with `~dlock_`, else `billing:*`. So `~dlock_gate:{{billing:*` becomes `~dlock_gate::billing:*`, and
  `~redisson_lock_token:{{billing:*` becomes `~redisson_lock_token:billing:*`. A latch keeps its channel.
- *Without a namespace*, put the common beginning of your names in place of `billing:`, and give `&dlock_client:*`. Then the user may write to
  the channels of all clients: this is not for [several tenants](#several-tenants).

## When a right is missing

- A command or key: calls that need it answer `DLOCK_DENIED`, and the message quotes the server. For a command inside a
  script, Redis 7.0 names only the script's line. `ACL LOG` on the server names the command, the key or the channel.
- A script that is denied midway has done a part of its work. The library takes that back, as far as the user may release;
  the rest ends with its lease. But a permit of a semaphore whose release was denied midway stays taken.
- A denied key costs only its own lock: the other locks of the same script are asked for again without it.
- `subscribe` or a channel: messages no longer arrive. Waiters ask the server every `safety_ms` instead. Without the right
  to publish, releases answer `DLOCK_DENIED`.
- `client|setname`: the connections have no names.
- `unsubscribe`: subscriptions last longer than needed.
- `mget`: the token counters of a batch are read one by one.
- `pexpireat`: renewals take the server longer.
- `hrandfield` or `hscan`: one is enough for a read-write lock with many readers. Redis before 6.2 has only `hscan`.
  Without `hrandfield` an inspection of such a lock reads all its readers.
- `pexpiretime`: a server clock that is set back is not noticed. Redis before 7.0 does not have the command.

## Beyond one server

- `auth` needs no right. A `db` in the URL needs `+select`.
- Sentinel needs `+role` at the servers. The sentinels have users of their own: the one in `sentinel_username` needs
  `+sentinel|get-master-addr-by-name` there.
- A cluster needs `+cluster|shards`, `+asking`, `+pubsub|shardnumsub`, `+spublish`, `+ssubscribe` and `+sunsubscribe` as well. With
  `cluster_pubsub=plain` the first two are enough. Before Redis 7.0 give `+cluster` in place of the first; the last four do
  not exist there.
- A lock that is touched while its slot moves goes on at once where the user has `+migrate`, `+exists`, `+type`, `+strlen`, `+hlen`, `+llen`,
  `+zcard`, `+hgetall` and `+zrange`, and over TLS `+config|get`. Where the default user may not write without a password, it also needs
  `+restore-asking`. Without one of them such a lock [waits for the operator](cluster.md#limits). Who may `MIGRATE` can make a server wait for
  another one for as long as it says: give it to users that you trust with the whole server.
- The servers of a quorum need `+info` and `~dlock_quorum:billing` as well; without a namespace `~dlock_quorum`.
- Redisson's clients need rights of their own.

## The command `dlock`

- `dlock run`, `latch` and `semaphore` need the rights of the kind. `release --force` does, too.
- `inspect`, `watch` and `bench` need those of [inspect](#inspect) as well, `gate` those of [gate](#gate).
- Say `--kind mutex`, or which kind it is. Without `--kind`, `inspect`, `watch`, `release --force` and `gate` look for the kind. Then they need
  the rights of mutex, fair, read-write, both semaphores and inspect. `semaphore` needs those of both semaphores then.
- `list` and `top` look for the kind of each name, and need `+scan` besides. Say `--namespace billing`, or put `namespace` into the URL: the
  first lock of another tenant ends them with `DLOCK_DENIED`. `list --names` looks at no lock, and shows the names of all tenants.
- `check` needs `+info`. `provision` needs the rights of `quarantine_ms`, see [options](#options).

## Several tenants

Users with the rights of this page, each for a namespace of its own, do not touch each other's locks on one server: they can
neither read nor change them, nor end each other's waits, nor make each other believe that a lock is held, nor end each other's
quarantine. [A test](../python-tests/servers/test_tenants.py) tries it in 14 ways, on one server, behind Sentinel and on a cluster.

- The default user is off: `redis-cli ACL SETUSER default off`. Who connects without a name is this user, and may do all. Before that, give
  users of their own to administrators, to replicas (`masteruser`, `masterauth`) and to sentinels (`sentinel auth-user`, `auth-pass`).
- Each client, or each of its locks, has the option `namespace`: on it depends the name of the channel by which a client gets its
  grants. While a client without it waits for `billing:x`, users with these rights are denied to release that lock.
- With `quarantine_ms`, and on a quorum, all clients of a lock have the same namespace: each namespace has its own quarantine, and its
  own view of the servers. `dlock_client_provision` is for the namespace of its client.
- No namespace begins like another one and a colon: `a` has all rights for `a:b`. `bill` and `billing` are apart.
- A namespace has no braces, and does not begin with `dlock_` or `redisson_`. `*`, `?`, `[`, `]` and a backslash need a backslash before
  them in a pattern.
- The server protects scripts of one user from those of another: Redis 6.2.7 or 7.0 and newer, with the fix of CVE-2025-46818.
- What a tenant can do all the same: load the server, block it with a slow script, fill its memory. `+info` shows figures of the whole
  server. `+scan` shows the names of all keys.
"""


MORE = """\
## Options

These rights come on top of those of the features. Tests run with and without them.

- `quarantine_ms`: `+info` `+hmget` `+hset` `+hget` `+time` `~dlock_memory:billing`; on a cluster
  `~dlock_memory:{[0-9]*}:billing`. Without a namespace `~dlock_memory`; on a cluster `~dlock_memory:{[0-9]*}`
- `replicas`: `+wait`; with `all`, at the sentinels, `+sentinel|master` beside `+sentinel|get-master-addr-by-name`,
  and at the servers `+info`, so that a replica that joins counts at once
- `dlock_client_list`: `+scan`
- `checks` and `dlock_client_check`: `+info`. A check also tries commands of a mutex, and names each one that the user may not use.
"""


def wrapped(words: list[str]) -> str:
    return " ".join(f"`{word}`" for word in words)


def page() -> str:
    words = [shlex.quote(rule) for rule in rights("mutex", "billing").rules()]
    example = textwrap.wrap(" ".join(words), 110, break_long_words=False, break_on_hyphens=False)
    lines = [HEAD.format(example="".join(f"\\\n    {part} " for part in example).rstrip())]
    for feature in FEATURES:
        need = rights(feature, "billing")
        lines += [f"## {feature}", ""]
        if feature in WHAT:
            lines += [WHAT[feature][0].upper() + WHAT[feature][1:] + ".", ""]
        lines.append(f"- commands: {wrapped(['+' + name for name in need.commands])}")
        if WHAT.get(feature, "").startswith("besides"):
            lines.append("- keys and channels: those of the kind")
        else:
            lines.append(f"- keys: {wrapped(['~' + key for key in need.keys])}")
        if need.channels and feature not in WHAT:
            lines.append(f"- channels: {wrapped(['&' + name for name in need.channels])}")
        lines.append("")
    return "\n".join([*lines, MORE]).rstrip("\n") + "\n"


if __name__ == "__main__":
    print(page(), end="")
