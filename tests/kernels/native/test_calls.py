"""calls.h as Python reads it is calls.h as a compiler reads it."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from kernels.native import build
from kernels.native.library import calls
from tests.kernels.native.here import COMPILES


@COMPILES
def test_every_member_lies_where_the_compiler_puts_it(tmp_path: Path) -> None:
    """Each struct is checked for its size, and each member for its place and size."""
    structs = {each.__name__: each for each in calls().values()}
    lines = ['#include <stddef.h>\n#include "native/calls.h"']
    for name, struct in structs.items():
        lines.append(f'_Static_assert(sizeof(struct {name}) == {ctypes.sizeof(struct)}, "");')
        for member, *_ in struct._fields_:
            place = getattr(struct, member)
            lines.append(
                f"_Static_assert(offsetof(struct {name}, {member}) == {place.offset} && "
                f'sizeof(((struct {name} *)0)->{member}) == {place.size}, "{name}.{member}");'
            )
    source = tmp_path / "check.c"
    source.write_text("\n".join(lines))
    command = [*build._compiler(), "-fsyntax-only", "-std=gnu11", "-I", str(build._KERNELS)]
    subprocess.run([*command, str(source)], check=True)
    assert len(structs) > 10 and len(lines) > 100


def test_every_kernel_of_the_file_is_known() -> None:
    text = (build._KERNELS / "native" / "calls.h").read_text(encoding="utf-8")
    assert len(calls()) == text.count("waymark_")


@pytest.mark.parametrize("name", ["linear_int8", "attend", "delta_step"])
def test_members_come_in_the_order_of_the_file(name: str) -> None:
    text = (build._KERNELS / "native" / "calls.h").read_text(encoding="utf-8")
    body = text.split(f"struct {calls()[name].__name__} {{")[1].split("};")[0]
    places = [body.index(each[0]) for each in calls()[name]._fields_]
    assert len(places) == len(set(places))
