"""Users of an etcd: root, and one with rights to a few keys.

    enable(etcd, job="joc")                         # "locks" may use keys below job, marks, gates and markers
    agent.open(etcd, **LOCKS)
    forget(etcd)                                    # the server knows no token of "locks" any more
"""
from __future__ import annotations

from . import Etcd, encoded

CHEAP = ("--bcrypt-cost", "4")  # a login of the usual cost takes a second on a busy machine
LOCKS = {"username": "locks", "password": "secret of locks"}
OWN = {"dlock_mark/": "dlock_mark0", "dlock_gate/": "dlock_gate0", "dlock_txn/": "dlock_txn0"}


def enable(etcd: Etcd, **ranges: str) -> None:
    """ranges: the first key of each, and what is behind its last one."""
    for user in ("root", "locks"):
        etcd.call("auth/user/add", name=user, password=f"secret of {user}")
    for key, end in {**ranges, **OWN}.items():
        etcd.call("auth/role/add", name=key)
        permission = {"permType": "READWRITE", "key": encoded(key), "range_end": encoded(end)}
        etcd.call("auth/role/grant", name=key, perm=permission)
        etcd.call("auth/user/grant", user="locks", role=key)
    etcd.call("auth/role/add", name="root")
    etcd.call("auth/user/grant", user="root", role="root")
    etcd.call("auth/enable")
    login(etcd)


def login(etcd: Etcd) -> None:
    etcd.nodes[0].token = etcd.call("auth/authenticate", name="root", password="secret of root")["token"]


def forget(etcd: Etcd) -> None:
    """A new password, though the same one, ends the tokens of its user. Authentication stays on."""
    etcd.call("auth/user/changepw", name="locks", password="secret of locks")
