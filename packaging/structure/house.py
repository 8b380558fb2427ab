"""The structure of the source, measured: cycles, sizes of folders, lines, the longest functions.

    python packaging/structure/house.py [--check]

With `--check` it prints only what breaks a rule, and fails where something does.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("desktop", "core", "kernels")
# Rules.
MOST_FILES = 16
LARGER_FOLDERS = {"desktop.chat", "desktop.widgets"}
LONGEST_FUNCTION = 60
SHOWN = 10

Graph = Mapping[str, set[str]]


def modules() -> dict[str, Path]:
    """Every module of the source by its dotted name; a package goes by its own name."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = path
    return found


def imports_of(name: str, path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """The modules of the source that one imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield from (each for each in (whole, node.module) if each in known)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)


def import_graph(known: Mapping[str, Path]) -> dict[str, set[str]]:
    """Which modules each module imports; a package's `__init__` counts for itself only."""
    graph = {}
    for name, path in known.items():
        found = set(imports_of(name, path, known)) - {name}
        # `from package.module import thing` names the package too, and imports nothing of it.
        packages = {each for each in found if known[each].name == "__init__.py"}
        graph[name] = found - packages
    return graph


def folder_of(name: str, known: Mapping[str, Path]) -> str:
    """The folder of a module."""
    return name if known[name].name == "__init__.py" else name.rpartition(".")[0]


def folder_graph(graph: Graph, known: Mapping[str, Path]) -> dict[str, set[str]]:
    """The folders that each folder imports from; a file at the top of a package counts alone."""

    def node(name: str) -> str:
        folder = folder_of(name, known)
        return name if folder in PACKAGES else folder

    folders: dict[str, set[str]] = defaultdict(set)
    for name, imported in graph.items():
        folders[node(name)] |= {node(each) for each in imported} - {node(name)}
    return folders


def cycles(graph: Graph) -> list[list[str]]:
    """Groups of nodes that reach each other (Tarjan's strongly connected components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group: list[str] = []
            while not group or group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for node in graph:
        if node not in index:
            visit(node)
    return found


def folder_sizes(known: Mapping[str, Path]) -> dict[str, int]:
    """Files of source in each folder, `__init__` and `__main__` left out, C included."""
    sizes: dict[str, int] = defaultdict(int)
    for name, path in known.items():
        if path.stem not in ("__init__", "__main__"):
            sizes[folder_of(name, known)] += 1
    return sizes


def functions(paths: Iterable[Path]) -> list[tuple[int, str]]:
    """Every function's length in lines, the longest first."""
    found = []
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                found.append((length, f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"))
    return sorted(found, reverse=True)


def lines_by_package() -> dict[str, int]:
    """Lines of Python and C in each package."""
    return {
        package: sum(
            len(path.read_text("utf-8").splitlines())
            for kind in ("*.py", "*.c", "*.h")
            for path in (ROOT / package).rglob(kind)
        )
        for package in PACKAGES
    }


def broken_rules(known: Mapping[str, Path]) -> list[str]:
    """What the structure must not have, in words."""
    graph = import_graph(known)
    found = [f"modules import each other: {', '.join(group)}" for group in cycles(graph)]
    for group in cycles(folder_graph(graph, known)):
        found.append(f"folders import each other: {', '.join(group)}")
    for folder, size in folder_sizes(known).items():
        if size > MOST_FILES and folder not in LARGER_FOLDERS:
            found.append(f"{folder} has {size} files, more than {MOST_FILES}")
    for length, where in functions(path for path in known.values() if "kernels" not in path.parts):
        if length > LONGEST_FUNCTION:
            found.append(f"{where} has {length} lines, more than {LONGEST_FUNCTION}")
    return found


def show(known: Mapping[str, Path]) -> None:
    """Print all measures."""
    lines = lines_by_package()
    print("Lines:", ", ".join(f"{name} {count:,}" for name, count in lines.items()), end="")
    print(f"; together {sum(lines.values()):,}")
    sizes = sorted(folder_sizes(known).items(), key=lambda each: -each[1])
    print("Largest folders:", ", ".join(f"{name} {size}" for name, size in sizes[:SHOWN]))
    print("Longest functions:")
    for length, where in functions(known.values())[:SHOWN]:
        print(f"  {length:3} {where}")


def main() -> int:
    """Print the measures or check the rules; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, add_help=True)
    parser.add_argument("--check", action="store_true", help="only what breaks a rule")
    options = parser.parse_args()
    known = modules()
    if not options.check:
        show(known)
    broken = broken_rules(known)
    for words in broken:
        print(words)
    return 1 if broken and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
