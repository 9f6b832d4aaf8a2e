"""docs/options.md from the library's own table: python3 python-tests/harness/options.py LIBRARY > docs/options.md"""
from __future__ import annotations

import ctypes
import sys


# Options that belong neither to a client nor to a name belong to a lock.
OF_CLIENTS = (
    "username password db client_name connect_timeout_ms command_timeout_ms connects_per_second private_connections busy_poll_us "
    "watchdog_threads event_limit tls_ca_file tls_ca_dir tls_crl_file tls_cert_file tls_key_file tls_key_password tls_server_name "
    "tls_verify sentinel_username sentinel_password quarantine_ms quorum quorum_name cluster_pubsub replicas checks"
).split()
OF_NAMES = "drift_ppm safety_ms lock_delay_ms handover_turns handover_ms polling_clients token_ttl_ms".split()


def rows(library: ctypes.CDLL, *names: str) -> list[list[str]]:
    """These columns of the library's table, a row for each option."""
    columns = [getattr(library, f"dlock_option_{name}") for name in names]
    for column in columns:
        column.argtypes, column.restype = [ctypes.c_size_t], ctypes.c_char_p
    library.dlock_option_count.restype = ctypes.c_size_t
    return [[column(index).decode() for column in columns] for index in range(library.dlock_option_count())]


def options_page(library: ctypes.CDLL) -> str:
    lines = [
        "# Options",
        "",
        "Set options by `dlock_options_set`, in the query part of a URL, as keyword arguments in Python, by `Set` in Go or in a table in Lua. A lock's options win",
        "over its client's, and those over the URL's. This page is written by [a script](../python-tests/harness/options.py) from the library's own table.",
        "",
        "- Options of a *lock* may differ between handles.",
        "- Options of a *name* come from the first handle of a client on that name, as long as any handle on it exists. Later handles do not change them.",
        "- Options of a *client* are the same for all its locks. Another value for a lock is `DLOCK_INVALID_OPTION`.",
        "",
        "| name | of a | accepts | default | meaning |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, kind, default, text in rows(library, "name", "type", "default", "help"):
        whose = "client" if name in OF_CLIENTS else "name" if name in OF_NAMES else "lock"
        lines.append(f"| `{name}` | {whose} | {kind} | {f'`{default}`' if default else ''} | {text} |")
    lines += [
        "",
        "Options that depend on each other:",
        "",
        "- `max_hold_ms` is -1 or at least 1.",
        "- `token_ttl_ms` is at least ten times `lease_ms`.",
        "- `quarantine_ms` is 0, or at least `lease_ms` and `lock_delay_ms` together.",
        "- `replicas` is `none`, 0 to 64, or `all`; `cluster_pubsub` is `auto`, `plain` or `both`.",
        "- `tls_*` options need a scheme with TLS; `sentinel_*`, `quorum*` and `cluster_pubsub` need one of theirs.",
        "- `renew`, `min_hold_ms` and `lock_delay_ms` do nothing for a plain semaphore, because its permits have no lease. Its `lease_ms` says how",
        "  long a holder may be silent before its permits can be [reclaimed](kinds.md#semaphore).",
        "- `handover_*` are for mutexes, fair and write locks and semaphores; `linger_ms` and `polling_clients` are for mutexes only; on a quorum `polling_clients` does nothing.",
        "- `polling_clients` costs time where nobody polls: see [Java clients that poll](kinds.md#java-clients-that-poll). Give it to all clients that use the name.",
        "- `quorum_name` tells two sets of servers apart less surely than their names do, and needs a pause of all clients:",
        "  see [clients that name the servers differently](quorum.md#clients-that-name-the-servers-differently).",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(options_page(ctypes.CDLL(sys.argv[1])), end="")
