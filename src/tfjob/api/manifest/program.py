"""What the source of a Python program contains: its imports and calls, and whether they run in every start.

    program = read(b"import tensorflow as tf\\nstrategy = tf.distribute.MirroredStrategy()\\n")
    program.calls[0]    # Use("MirroredStrategy", line=2, column=12, runs=Runs.ALWAYS)

Nothing is executed. What cannot be known from the source, such as a call through `getattr`, is not found.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from tfjob.api.manifest.script import check_syntax

ROLE_WORDS = frozenset(
    {"TF_CONFIG", "task_type", "task", "cluster", "role", "is_chief", "chief", "master", "worker", "ps", "evaluator"}
)
"""Names and strings by which a condition depends on the role of a replica."""
_SEARCH_PATH = {"path", "modules", "meta_path", "path_hooks"}
_EXITS = {"exit", "_exit", "quit", "SystemExit"}
_STARTERS = {"run", "Fire"}
"""Functions that call a function that they are given, such as `app.run(main)`."""
_ANY_ERROR = {"Exception", "BaseException"}
_IMPORT_ERRORS = _ANY_ERROR | {"ImportError", "ModuleNotFoundError"}
_TYPICAL_ERRORS = _ANY_ERROR | {"ValueError"}
_Statements = list[ast.stmt]


class Runs(IntEnum):
    """When a line runs: perhaps, in replicas of a certain role, or in every start of the program."""

    PERHAPS = 0
    IN_A_ROLE = 1
    ALWAYS = 2


@dataclass(frozen=True)
class Use:
    """An import or a call. The `name` of a call is without what precedes the last dot."""

    name: str
    line: int
    column: int
    runs: Runs


@dataclass(frozen=True)
class Program:
    """The content of one source file.

    `imports` have the full name of what is imported, with leading dots if it is relative. They do not contain imports
    that may fail (`try: ... except ImportError`) or that only type checkers see. `words` are all names, attributes and
    strings that look like a name. `changes_path` says that the program may find modules at other places.
    """

    imports: tuple[Use, ...]
    calls: tuple[Use, ...]
    words: frozenset[str]
    changes_path: bool


def read(source: bytes, *, is_main: bool = True) -> Program:
    """Read the source of the main program, or of a module that it imports. Raises SyntaxError."""
    check_syntax(source)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (RecursionError, MemoryError):  # valid, but too deep for us
        return Program((), (), frozenset(), changes_path=True)
    reader = _Reader(source.split(b"\n"), _original_names(tree), is_main)
    reader.read(tree)
    return Program(tuple(reader.imports), tuple(reader.calls), frozenset(_words(tree)), _changes_path(tree))


class _Reader:
    """Follows the program from its first line into the functions that it calls."""

    def __init__(self, lines: list[bytes], originals: dict[str, str], is_main: bool) -> None:
        self.imports: list[Use] = []
        self.calls: list[Use] = []
        self._lines = lines
        self._originals = originals
        self._is_main = is_main
        self._called: dict[str, Runs] = {}
        self._functions: list[tuple[str, _Statements]] = []
        """Functions that were not read yet. Methods have no name, because calls do not show whose they are."""

    def read(self, tree: ast.Module) -> None:
        self._follow(tree.body, Runs.ALWAYS)
        while self._functions:
            # Begin with those that run for sure, because their calls decide about others.
            chosen = max(self._functions, key=lambda one: self._called.get(one[0], Runs.PERHAPS))
            self._functions.remove(chosen)
            self._follow(chosen[1], self._called.get(chosen[0], Runs.PERHAPS))

    def _follow(self, statements: _Statements, runs: Runs) -> None:
        waiting: list[tuple[ast.AST, Runs, bool]] = [*_sequence(statements, runs)][::-1]
        while waiting:
            node, runs, may_fail = waiting.pop()
            found = [(inner, min(runs, when), may_fail or fails) for inner, when, fails in self._inner(node)]
            waiting += found[::-1]
            if not may_fail:
                self.imports += self._imported(node, runs)
            if isinstance(node, ast.Call):
                self._note_call(node, runs)

    def _inner(self, node: ast.AST) -> Iterable[tuple[ast.AST, Runs, bool]]:
        """Return what a node contains, with when it runs and whether its imports may fail."""
        match node:
            case ast.If():
                return self._branches(node)
            case ast.Try() | ast.TryStar():
                return _attempt(node)
            case ast.With() | ast.AsyncWith():
                suppressed = any(_names(item.context_expr) >= {"suppress"} for item in node.items)
                items = [(item, Runs.ALWAYS, False) for item in node.items]
                return [*items, *((one, when, suppressed) for one, when, _ in _sequence(node.body, Runs.ALWAYS))]
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._functions.append((node.name, node.body))
                return [(one, Runs.ALWAYS, False) for one in (*node.decorator_list, node.args)]
            case ast.ClassDef():
                methods = [one for one in node.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))]
                self._functions += [("", method.body) for method in methods]
                return [(one, Runs.ALWAYS, False) for one in node.body if one not in methods]
            case ast.For() | ast.AsyncFor():
                return [(node.iter, Runs.ALWAYS, False), *_perhaps([*node.body, *node.orelse])]
            case ast.IfExp():
                when = Runs.IN_A_ROLE if _names(node.test) & ROLE_WORDS else Runs.PERHAPS
                return [(node.test, Runs.ALWAYS, False), (node.body, when, False), (node.orelse, when, False)]
            case ast.While() | ast.Lambda() | ast.Match() | ast.BoolOp() | ast.comprehension():
                return _perhaps(ast.iter_child_nodes(node))
            case _:
                return [(one, Runs.ALWAYS, False) for one in ast.iter_child_nodes(node)]

    def _branches(self, node: ast.If) -> Iterable[tuple[ast.AST, Runs, bool]]:
        names = _names(node.test)
        if names == {"__name__", "__main__"}:
            return _sequence(node.body if self._is_main else node.orelse, Runs.ALWAYS)
        if names <= {"TYPE_CHECKING", "typing"} and isinstance(node.test, (ast.Name, ast.Attribute)):
            return _sequence(node.orelse, Runs.ALWAYS)
        when = Runs.IN_A_ROLE if names & ROLE_WORDS else Runs.PERHAPS
        return [(node.test, Runs.ALWAYS, False), *_sequence(node.body, when), *_sequence(node.orelse, when)]

    def _imported(self, node: ast.AST, runs: Runs) -> Iterator[Use]:
        if isinstance(node, ast.Import):
            for one in node.names:
                yield self._use(node, one.name, runs)
        elif isinstance(node, ast.ImportFrom):
            for one in node.names:
                module = ".".join(filter(None, (node.module, one.name)))
                yield self._use(node, "." * node.level + module, runs)

    def _note_call(self, node: ast.Call, runs: Runs) -> None:
        name = _last_name(node.func)
        if name:
            self.calls.append(self._use(node, self._originals.get(name, name), runs))
        if isinstance(node.func, ast.Name):
            self._called[name] = max(runs, self._called.get(name, runs))
        if name in _STARTERS:
            for given in node.args:
                self._called.setdefault(_last_name(given), runs)

    def _use(self, node: ast.stmt | ast.expr, name: str, runs: Runs) -> Use:
        before = self._lines[node.lineno - 1][: node.col_offset] if node.lineno <= len(self._lines) else b""
        return Use(name, node.lineno, len(before.decode(errors="replace")) + 1, runs)


def _sequence(statements: _Statements, runs: Runs) -> Iterator[tuple[ast.AST, Runs, bool]]:
    """Yield the statements of a block; those after a condition with `return` or `exit` may not be reached."""
    for one in statements:
        yield one, runs, False
        if isinstance(one, (ast.If, ast.Try, ast.For, ast.While, ast.Match)) and _leaves(one):
            is_role = isinstance(one, ast.If) and _names(one.test) & ROLE_WORDS
            runs = min(runs, Runs.IN_A_ROLE if is_role else Runs.PERHAPS)


def _attempt(node: ast.Try | ast.TryStar) -> Iterator[tuple[ast.AST, Runs, bool]]:
    caught = set[str]()
    for handler in node.handlers:
        caught |= _names(handler.type) if handler.type else _ANY_ERROR
    when = Runs.PERHAPS if caught & _TYPICAL_ERRORS else Runs.ALWAYS
    may_fail = bool(caught & _IMPORT_ERRORS)
    for one, runs, _ in _sequence([*node.body, *node.orelse], when):
        yield one, runs, may_fail
    for handler in node.handlers:
        for one in handler.body:
            yield one, Runs.PERHAPS, may_fail
    yield from _sequence(node.finalbody, Runs.ALWAYS)


def _perhaps(nodes: Iterable[ast.AST]) -> list[tuple[ast.AST, Runs, bool]]:
    return [(one, Runs.PERHAPS, False) for one in nodes]


def _leaves(statement: ast.AST) -> bool:
    waiting = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return) or (isinstance(node, ast.Call) and _last_name(node.func) in _EXITS):
            return True
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)
    return False


def _original_names(tree: ast.AST) -> dict[str, str]:
    """Return the names of what is imported under another name."""
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return {one.asname: one.name for node in imports for one in node.names if one.asname}


def _words(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.alias():
                yield from node.name.split(".")
            case ast.ImportFrom(module=str(module)):
                yield from module.split(".")
            case ast.keyword(arg=str(name)) | ast.Name(id=name) | ast.Attribute(attr=name):
                yield name
            case ast.Constant(value=str(name)) if name.isidentifier():
                yield name


def _names(node: ast.AST) -> set[str]:
    return set(_words(node))


def _last_name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _changes_path(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Attribute)
        and (node.attr == "addsitedir" or (node.attr in _SEARCH_PATH and _last_name(node.value) == "sys"))
        for node in ast.walk(tree)
    )
