"""Measures of the source's structure: cycles, folders, lines, importers, docstrings, functions.

    python packaging/structure/house.py [--check]

With `--check` it prints only broken rules, and fails if there are any.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("desktop", "core", "kernels")
# Rules. Features that are added later raise the first two by what they need.
MOST_LINES = 90_600
MOST_MODULES = 442
MOST_DOCSTRING_WORDS = 40_000
MOST_TESTS_PER_SOURCE = 1.10
MOST_SINGLE_IMPORTERS = 0.26
MOST_SINGLE_PROTOCOLS = 0
MOST_FILES = 16
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


def cycle(graph: Graph) -> list[str]:
    """A cycle of the graph, its first node again at the end; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def single_importers(graph: Graph, known: Mapping[str, Path]) -> list[str]:
    """Modules that exactly one other module imports; packages and entry points left out."""
    importers: dict[str, int] = defaultdict(int)
    for imported in graph.values():
        for each in imported:
            importers[each] += 1
    return sorted(
        name for name, count in importers.items() if count == 1 and is_module(known[name])
    )


def is_module(path: Path) -> bool:
    """True if a file is a module of its own, not a package's `__init__`."""
    return path.name != "__init__.py"


def single_protocols(trees: Mapping[str, ast.Module]) -> list[str]:
    """Protocols with methods that fewer than two classes of the source implement."""
    classes = [
        (f"{name}.{node.name}", node)
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    members = {name: members_of(node) for name, node in classes}
    by_short = {name.rpartition(".")[2]: name for name, _ in classes}
    bases = {
        name: [by_short.get(base_name(base), "") for base in node.bases] for name, node in classes
    }
    protocols = {
        name for name, node in classes if any(base_name(base) == "Protocol" for base in node.bases)
    }

    def all_members(name: str) -> set[str]:
        above = [all_members(base) for base in bases[name] if base and base != name]
        return members[name].union(*above)

    found = []
    for name in protocols:
        wanted = {each for each in members[name] if not each.startswith("__")}
        users = [
            each for each, _ in classes if each not in protocols and wanted <= all_members(each)
        ]
        if wanted and len(users) < 2:
            found.append(name)
    return sorted(found)


def base_name(base: ast.expr) -> str:
    """The last part of a base class's name, its parameters left out."""
    if isinstance(base, ast.Subscript):
        base = base.value
    return base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")


def members_of(node: ast.ClassDef) -> set[str]:
    """Names that a class defines: methods, annotated fields, assignments, `self.x = ...`."""
    found = set()
    for each in ast.walk(node):
        match each:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                found.add(each.name)
            case (
                ast.AnnAssign(target=ast.Name(id=name))
                | ast.AnnAssign(target=ast.Attribute(attr=name))
            ):
                found.add(name)
            case ast.Assign(targets=targets):
                found |= {getattr(target, "id", getattr(target, "attr", "")) for target in targets}
    return found


def docstring_words(trees: Iterable[ast.Module]) -> int:
    """Words of all docstrings."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return sum(
        len((ast.get_docstring(node) or "").split())
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, kinds)
    )


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


def lines_in(folder: str) -> int:
    """Lines of Python and C under a folder."""
    return sum(
        len(path.read_text("utf-8").splitlines())
        for kind in ("*.py", "*.c", "*.h")
        for path in (ROOT / folder).rglob(kind)
    )


@dataclass(frozen=True)
class Size:
    """Size of the source, and the rules that it breaks."""

    lines: int
    modules: int
    docstring_words: int
    tests_per_source: float
    single_importers: float
    single_protocols: list[str]

    def over(self) -> Iterator[str]:
        """The figures that break a rule, in words."""
        rows = (
            ("lines of source", self.lines, MOST_LINES),
            ("modules", self.modules, MOST_MODULES),
            ("words of docstrings", self.docstring_words, MOST_DOCSTRING_WORDS),
            ("lines of tests per line of source", self.tests_per_source, MOST_TESTS_PER_SOURCE),
            ("of the modules have one importer", self.single_importers, MOST_SINGLE_IMPORTERS),
        )
        for what, figure, most in rows:
            if figure > most:
                shown = ".2f" if isinstance(most, float) else ","
                yield f"{figure:{shown}} {what}, more than {most:{shown}}"
        if len(self.single_protocols) > MOST_SINGLE_PROTOCOLS:
            names = ", ".join(self.single_protocols)
            yield f"Protocols with fewer than two implementations: {names}"


def size_of(known: Mapping[str, Path]) -> Size:
    """Measure the source."""
    trees = {name: ast.parse(path.read_text("utf-8")) for name, path in known.items()}
    lines = sum(lines_in(package) for package in PACKAGES)
    modules = sum(is_module(path) for path in known.values())
    return Size(
        lines=lines,
        modules=modules,
        docstring_words=docstring_words(trees.values()),
        tests_per_source=lines_in("tests") / lines,
        single_importers=len(single_importers(import_graph(known), known)) / modules,
        single_protocols=single_protocols(trees),
    )


def broken_rules(known: Mapping[str, Path]) -> list[str]:
    """Broken rules of the structure, in words."""
    graph = import_graph(known)
    found = []
    for kind, group in (("modules", cycle(graph)), ("folders", cycle(folder_graph(graph, known)))):
        if group:
            found.append(f"{kind} import each other: {' <- '.join(group)}")
    for folder, size in folder_sizes(known).items():
        if size > MOST_FILES:
            found.append(f"{folder} has {size} files, more than {MOST_FILES}")
    for length, where in functions(path for path in known.values() if "kernels" not in path.parts):
        if length > LONGEST_FUNCTION:
            found.append(f"{where} has {length} lines, more than {LONGEST_FUNCTION}")
    return [*found, *size_of(known).over()]


def show(known: Mapping[str, Path]) -> None:
    """Print all measures."""
    size = size_of(known)
    print("Lines:", ", ".join(f"{name} {lines_in(name):,}" for name in PACKAGES), end="")
    print(f"; together {size.lines:,}; {size.tests_per_source:.2f} lines of tests for each")
    print(f"Modules: {size.modules}; {size.single_importers:.0%} have one importer")
    print(f"Docstrings: {size.docstring_words:,} words")
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
