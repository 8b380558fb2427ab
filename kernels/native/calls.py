"""What calls.h says of the kernels, as types that Python can fill in.

Knows the little C that the file keeps to. So what a kernel takes is written down once.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache
from pathlib import Path

_HEADER = Path(__file__).with_name("calls.h")
_TYPES = {"long": ctypes.c_int64, "int": ctypes.c_int, "float": ctypes.c_float}
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_STRUCT = re.compile(r"struct (\w+) \{(.*?)\};", re.DOTALL)
_FUNCTION = re.compile(r"int waymark_(\w+)\(struct (\w+) \*\);")


@cache
def calls() -> dict[str, type[ctypes.Structure]]:
    """For every kernel by its name, less `waymark_`, the struct that it takes."""
    text = _COMMENT.sub("", _HEADER.read_text(encoding="utf-8"))
    structs = {name: _struct(name, body) for name, body in _STRUCT.findall(text)}
    return {name: structs[struct] for name, struct in _FUNCTION.findall(text)}


def _struct(name: str, body: str) -> type[ctypes.Structure]:
    fields = []
    for declaration in filter(None, map(str.strip, body.split(";"))):
        kind, members = declaration.removeprefix("const ").split(maxsplit=1)
        for member in members.split(","):
            pointer = member.strip().startswith("*")
            fields.append((member.strip(" *"), ctypes.c_void_p if pointer else _TYPES[kind]))
    return type(name, (ctypes.Structure,), {"_fields_": fields})
