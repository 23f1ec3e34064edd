"""What the source of a program contains, and when each line runs."""

from __future__ import annotations

import pytest

from tfjob.api.manifest.program import Runs, read

PERHAPS, IN_A_ROLE, ALWAYS = Runs

CALLS = {
    "at the top": ("Strategy()", ALWAYS),
    "by its full name": ("tf.distribute.Strategy()", ALWAYS),
    "under another name": ("from tensorflow import Strategy as S\nS()", ALWAYS),
    "in the main guard": ('if __name__ == "__main__":\n    Strategy()', ALWAYS),
    "in a function that the guard calls": (
        'def main():\n    Strategy()\nif __name__ == "__main__":\n    main()',
        ALWAYS,
    ),
    "two calls deep, defined later": ("def main():\n    train()\ndef train():\n    Strategy()\nmain()", ALWAYS),
    "started by a library": ("def main(argv):\n    Strategy()\napp.run(main)", ALWAYS),
    "in a function that is not called": ("def main():\n    Strategy()", PERHAPS),
    "in a method": ("class A:\n    def main(self):\n        Strategy()\nA().main()", PERHAPS),
    "in the body of a class": ("class A:\n    strategy = Strategy()", ALWAYS),
    "in a with": ("with open('a') as file:\n    Strategy()", ALWAYS),
    "under a condition": ("if args.distribute:\n    Strategy()", PERHAPS),
    "in an else": ("if args.alone:\n    pass\nelse:\n    Strategy()", PERHAPS),
    "in an expression with if": ("strategy = Strategy() if args.distribute else None", PERHAPS),
    "after an and": ("args.distribute and Strategy()", PERHAPS),
    "in a loop": ("for _ in range(3):\n    Strategy()", PERHAPS),
    "in a lambda": ("make = lambda: Strategy()", PERHAPS),
    "in a match": ("match args.kind:\n    case 'a':\n        Strategy()", PERHAPS),
    "for a role": ("if task_type == 'chief':\n    Strategy()", IN_A_ROLE),
    "with TF_CONFIG": ("strategy = Strategy() if 'TF_CONFIG' in os.environ else None", IN_A_ROLE),
    "after a return for a role": (
        "def main():\n    if task['type'] in ('worker', 'ps'):\n        return serve()\n    Strategy()\nmain()",
        IN_A_ROLE,
    ),
    "after a return under a condition": (
        "def main():\n    if args.a:\n        return\n    Strategy()\nmain()",
        PERHAPS,
    ),
    "after an exit": ("if args.a:\n    sys.exit(0)\nStrategy()", PERHAPS),
    "after a return of another function": ("if args.a:\n    def f():\n        return 1\nStrategy()", ALWAYS),
    "where every error is caught": ("try:\n    Strategy()\nexcept Exception:\n    pass", PERHAPS),
    "where another error is caught": ("try:\n    Strategy()\nexcept KeyError:\n    pass", ALWAYS),
    "in a handler": ("try:\n    a()\nexcept KeyError:\n    Strategy()", PERHAPS),
    "in a finally": ("try:\n    a()\nfinally:\n    Strategy()", ALWAYS),
    "as an argument": ("train(Strategy())", ALWAYS),
    "in a decorator": ("@Strategy()\ndef f(): pass", ALWAYS),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_call_runs_always_in_a_role_or_perhaps(case: str) -> None:
    text, runs = CALLS[case]
    assert [use.runs for use in read(text.encode()).calls if use.name == "Strategy"] == [runs]


IMPORTS = {
    "a module": ("import a.b, c", {"a.b": ALWAYS, "c": ALWAYS}),
    "names of a module": ("from a.b import c, d as e", {"a.b.c": ALWAYS, "a.b.d": ALWAYS}),
    "relative": ("from . import a\nfrom ..b import c", {".a": ALWAYS, "..b.c": ALWAYS}),
    "in a function": ("def f():\n    import a", {"a": PERHAPS}),
    "under a condition": ("if x:\n    import a", {"a": PERHAPS}),
    "where an ImportError is caught": (
        "try:\n    import a\nexcept ImportError:\n    import b\nimport c",
        {"c": ALWAYS},
    ),
    "where that is one of several": ("try:\n    import a\nexcept (KeyError, ModuleNotFoundError):\n    pass", {}),
    "where everything is caught": ("try:\n    import a\nexcept:\n    pass", {}),
    "deeper where it is caught": ("try:\n    if x:\n        import a\nexcept ImportError:\n    pass", {}),
    "where another error is caught": ("try:\n    import a\nexcept OSError:\n    import b", {"a": ALWAYS, "b": PERHAPS}),
    "suppressed": ("with contextlib.suppress(ImportError):\n    import a", {}),
    "for type checkers": ("if TYPE_CHECKING:\n    import a\nelse:\n    import b", {"b": ALWAYS}),
    "for type checkers, in full": ("import typing\nif typing.TYPE_CHECKING:\n    import a", {"typing": ALWAYS}),
}


@pytest.mark.parametrize("case", IMPORTS)
def test_imports_that_may_fail_do_not_count(case: str) -> None:
    text, imports = IMPORTS[case]
    assert {use.name: use.runs for use in read(text.encode()).imports} == imports


def test_the_main_guard_of_an_imported_module_does_not_run() -> None:
    text = b'if __name__ == "__main__":\n    import a\n    run()\n'
    assert [use.name for use in read(text).imports] == ["a"]
    module = read(text, is_main=False)
    assert (module.imports, module.calls) == ((), ())


def test_columns_count_characters() -> None:
    (call,) = read("x = 'äöü'; f()\n".encode()).calls
    assert (call.line, call.column) == (1, 12)


@pytest.mark.parametrize(
    ("text", "changes"),
    [("sys.path.insert(0, 'lib')", True), ("site.addsitedir('lib')", True), ("os.path.join('a')", False)],
)
def test_a_program_that_changes_the_search_path_is_noticed(text: str, changes: bool) -> None:
    assert read(text.encode()).changes_path is changes


INVALID = {
    "an open bracket": b"a = (1,\nb = 2\n",
    "a return outside of a function": b"return 1\n",
    "null characters": b"a\0b",
    "an unknown encoding": b"# coding: no-such\n",
    "bytes that are not UTF-8": b"a = '\xff'\n",
    "too many conditions": b"if a: pass\n" + b"".join(b"elif a: pass\n" for _ in range(20_000)),
}


@pytest.mark.parametrize("case", INVALID)
def test_what_is_not_python_is_a_syntax_error(case: str) -> None:
    with pytest.raises(SyntaxError):
        read(INVALID[case])


def test_a_doubtful_escape_is_not_reported(recwarn: pytest.WarningsRecorder) -> None:
    read(b"'\\d' is 1\n")
    assert not recwarn
