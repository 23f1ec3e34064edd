from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfjob.plan.policy.last_lines import BYTES, LINES, last_lines, plain_lines

HEADER = "Traceback (most recent call last):"
KERAS = '  File "/venv/lib/python3.11/site-packages/keras/src/trainer.py", line {}, in fit\n    raise error'
OWN = '  File "/app/train.py", line 31, in main\n    model.fit(dataset)'
OUTER = '  File "/app/train.py", line 40, in <module>\n    main()'
INLINE, FROZEN = '  File "<string>", line 5, in <module>', '  File "<frozen os>", line 679, in __getitem__'
TENSOR = "<tf.Tensor: shape=(2, 2), dtype=float32, numpy="
ARRAY = "array([[0.1, 0.2],\n       [1e-05, nan],\n       ...,\n\n       [0. , 1. ]], dtype=float32)>"


def lines_of(message: str) -> list[str]:
    return last_lines(plain_lines(message))


@pytest.mark.parametrize(
    ("message", "lines"),
    [
        ("", []),
        ("\n\n", []),
        ("one\ntwo\n", ["one", "two"]),
        ("\x1b[31mred\x1b[0m text", ["red text"]),
        ("\x1b]0;title\x07shown", ["shown"]),
        ("1/3\r2/3\r3/3\ndone\r\n", ["3/3", "done"]),
        ("bell\x07 and null\x00\ttab", ["bell and null\ttab"]),
        ("half a pair \udcff", ["half a pair ?"]),
        ("one\n\none", ["one", "", "one"]),
        ("\n".join(str(number) for number in range(100)), [str(number) for number in range(80, 100)]),
    ],
)
def test_the_last_lines_are_plain_text(message: str, lines: list[str]) -> None:
    assert lines_of(message) == lines


PYTHON = {
    "the program's own frame and the exception": (
        f"loading\n{HEADER}\n{OUTER}\n{OWN}\nValueError: no data",
        [HEADER, *OWN.split("\n"), "ValueError: no data"],
    ),
    "frames of libraries are counted": (
        "\n".join([HEADER, OUTER, OWN, *(KERAS.format(number) for number in range(100)), "ValueError: no data"]),
        [HEADER, *OWN.split("\n"), "  [100 library frames]", "ValueError: no data"],
    ),
    "a program on the command line": (
        f"{HEADER}\n{INLINE}\n{FROZEN}\nKeyError: 'A'",
        [HEADER, INLINE, "  [1 library frame]", "KeyError: 'A'"],
    ),
    "a library alone": (
        f"{HEADER}\n{KERAS.format(1)}\n{KERAS.format(2)}\nValueError: no data",
        [HEADER, *KERAS.format(2).split("\n"), "ValueError: no data"],
    ),
    "the last of two that are chained": (
        f"{HEADER}\n{KERAS.format(1)}\nKeyError: 1\n\nDuring handling of the above exception, another exception"
        f" occurred:\n\n{HEADER}\n{OWN}\nValueError: no data",
        [HEADER, *OWN.split("\n"), "ValueError: no data"],
    ),
    "not one that is ignored at the end": (
        f"{HEADER}\n{OWN}\nValueError: no data\nException ignored in: f\n{HEADER}\n{KERAS.format(1)}\nKeyError: 1",
        [HEADER, *OWN.split("\n"), "ValueError: no data"],
    ),
    "a kubelet has cut the beginning": (
        f"    return f(x)\n{OWN}\n{KERAS.format(2)}\nValueError: no data",
        [*OWN.split("\n"), "  [1 library frame]", "ValueError: no data"],
    ),
    "a kubelet has cut all but the message": (
        f"{ARRAY}\n}}) with an unsupported type",
        ["[4 lines of numbers]", "}) with an unsupported type"],
    ),
    "arrays in a message": (
        f"{HEADER}\n{OWN}\nValueError: Attempt to convert a value (PerReplica:{{\n  0: {TENSOR}\n{ARRAY},\n"
        f"  1: {TENSOR}\n{ARRAY}\n}}) to a Tensor.",
        [
            HEADER,
            *OWN.split("\n"),
            "ValueError: Attempt to convert a value (PerReplica:{",
            "[10 lines of numbers]",
            "}) to a Tensor.",
        ],
    ),
    "the part of a message that TensorFlow calls user code": (
        f'{HEADER}\n{OWN}\nValueError: in user code:\n\n    File "/app/train.py", line 8, in step  *\n        f(x)\n'
        '    File "/venv/lib/python3.11/site-packages/keras/src/x.py", line 9, in f  **\n        raise error\n\n'
        "    ValueError: shapes differ",
        [
            HEADER,
            *OWN.split("\n"),
            "ValueError: in user code:",
            '    File "/app/train.py", line 8, in step  *',
            "        f(x)",
            "    ValueError: shapes differ",
        ],
    ),
    "native frames after it": (
        f"{HEADER}\n{OWN}\nRuntimeError: aborted\n    @     0x7f3b2c1d4e90  (unknown)\n    @     0x7f3b2c1d4e91  f()\n"
        "    @     0x7f3b2c1d4e92  (unknown)\nAborted",
        [HEADER, *OWN.split("\n"), "RuntimeError: aborted", "[3 native frames]", "Aborted"],
    ),
    "a script that does not parse": (
        "  File \"/app/train.py\", line 3\n    if x\n        ^\nSyntaxError: expected ':'",
        ['  File "/app/train.py", line 3', "    if x", "        ^", "SyntaxError: expected ':'"],
    ),
    "a crash of the interpreter, which shows the last call first": (
        'Fatal Python error: Aborted\n\nThread 0x7f (most recent call first):\n  File "/app/train.py", line 3 in f',
        [
            "Fatal Python error: Aborted",
            "",
            "Thread 0x7f (most recent call first):",
            '  File "/app/train.py", line 3 in f',
        ],
    ),
}


@pytest.mark.parametrize("case", PYTHON)
def test_of_a_python_failure_the_own_frame_and_the_exception_are_kept(case: str) -> None:
    message, expected = PYTHON[case]
    assert lines_of(message) == expected


def test_a_long_message_keeps_its_first_line_and_its_end() -> None:
    rest = [f"detail {number}" for number in range(100)]
    kept = lines_of("\n".join([HEADER, OWN, "ValueError: " + "x" * 10_000, *rest]))
    assert len(kept) == LINES
    assert kept[:3] == [HEADER, *OWN.split("\n")]
    assert kept[3].startswith("ValueError: xxx")
    assert kept[-1] == rest[-1]


TEXTS = st.text(st.characters(codec=None, exclude_categories=())) | st.text('"\\\t\x01é\n', min_size=500)
PARTS = st.sampled_from(
    [HEADER, OWN, KERAS, ARRAY, "Exception ignored in: f", "ValueError: no", "  File", "[" * 50, " "]
)


@given(TEXTS | st.lists(PARTS | st.text(), max_size=20).map("\n".join))
def test_the_last_lines_stay_small_whatever_a_program_prints(message: str) -> None:
    kept = lines_of(message * 30)
    assert len(kept) <= LINES
    assert len(msgspec.json.encode(kept)) <= BYTES + 2


def test_of_one_endless_line_the_end_is_kept() -> None:
    (line,) = lines_of("x" * 100_000 + " the point")
    assert line.endswith(" the point")
    assert BYTES / 4 < len(line) <= BYTES


def test_a_line_of_many_numbers_is_read_in_time() -> None:
    assert lines_of("[" + "0.1, " * 6000 + "x")
