"""What gen.py writes for Python besides the declarations: the methods of python_names.py.

A method has the parameters of the blocking call of dlock.h without the lock and its owner, and returns what that call writes.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from python_names import CLASSES, DEFAULTS, KINDS, PROPERTIES, VERBS

if TYPE_CHECKING:
    from gen import Function, Header

MAKERS_HEAD = '''\
"""The methods of a client that make locks of one kind each. Written by abi/gen.py: do not edit."""
# mypy: no-warn-return-any
from __future__ import annotations

from typing import Any, Generic, Optional, TypeVar

from ._lib import Name, Option
from .held import Held

L = TypeVar("L", bound=Held)
S = TypeVar("S", bound=Held)
C = TypeVar("C", bound=Held)


class Makers(Generic[L, S, C]):
    """The base of Kinds. L, S and C are its first three types."""

    _kinds: tuple[Any, Any, Any, Any]
'''

HEAD = '''\
"""Requests to the server about a lock, for dlock and dlock.aio. Written by abi/gen.py: do not edit.

In dlock these methods block, up to the option command_timeout_ms, and return None, bool, int or Inspection.
In dlock.aio methods and properties return an awaitable of that.
"""
# mypy: no-warn-return-any
from __future__ import annotations

from . import _abi
from ._lib import milliseconds
from .requests import B, I, N, Requests, X, whole
'''


def makers_py() -> str:
    lines = [MAKERS_HEAD]
    for kind, (name, (place, made), says) in KINDS.items():
        if name:
            lines += [
                f"    def {name}(self, name: Name, *, owner: Optional[int] = None, **options: Option) -> {made}:",
                f'        """{says.strip()}"""',
                f'        return self._kinds[{place}](self, name, owner, "{kind.lower()}", options)',
                "",
            ]
    return "\n".join(lines)


def operations_py(header: Header) -> str:
    lines = [HEAD]
    for group, (name, says) in CLASSES.items():
        base = "Requests" if group == "lock" else "Operations"
        lines += ["", f"class {name}({base}[N, B, I, X]):", f'    """{says}"""', ""]
        for verb, (public, no, explained) in VERBS.items():
            if public and verb.startswith(group + "_"):
                lines += operation(header.functions["dlock_" + verb], verb, public, no, explained.strip())
    return "\n".join(lines)


def operation(function: Function, verb: str, name: str, no: str, says: str) -> list[str]:
    parameters, given = ["self"], [f'"{verb}"']
    answer, told = ("B", f"expected=_abi.DLOCK_{no}") if no else ("N", "")
    before: list[str] = []
    for kind, parameter in function.params[1:-1]:
        if parameter == "owner":
            given.append("self._whose()")
        elif kind == "dlock_event *":
            answer, told = "X", 'get="inspection"'
        elif parameter.startswith("ret_"):
            answer, told = "I", 'get="token"' if parameter == "ret_token" else 'get="value"'
        elif kind == "const uint8_t *":
            parameters.append(f"{parameter}: bytes")
            given += ["data", "len(data)"]
            before = [f"        data = bytes(memoryview({parameter}))"]
        elif parameter.endswith("_ms"):
            seconds = parameter.removesuffix("_ms")
            parameters.append(f"{seconds}: float")
            given.append(f"milliseconds({seconds})")
        elif kind == "int64_t":
            default = DEFAULTS.get((name, parameter))
            parameters.append(f"{parameter}: int" + ("" if default is None else f" = {default}"))
            given.append(f"whole({parameter})")
    call = ", ".join([*given, told] if told else given)
    return [
        *(["    @property"] if name in PROPERTIES else []),
        f"    def {name}({', '.join(parameters)}) -> {answer}:",
        f'        """{says}"""',
        *before,
        f"        return self._execute({call})",
        "",
    ]
