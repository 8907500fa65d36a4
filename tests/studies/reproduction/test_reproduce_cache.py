"""What is kept is found again whole or not at all."""

import json
import math
import resource
import signal
import subprocess
import sys
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reproduce_points import digest, same

from weir.errors import Unsupported
from weir.runs.cache import Cache, Result, identity
from weir.runs.point import Point
from weir.runs.version import code_version

POINT = Point(same, {"value": 1, "seed": 7})
RESULT = Result({"a": [1, 2.5, None], "ä": "ö"}, 0.25)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def entry(folder):
    """The file of the one result that is kept."""
    Cache(folder).put(POINT, RESULT)
    (file,) = (path for path in folder.rglob("*") if path.is_file())
    return file


def test_a_result_is_found_by_an_equal_point_and_no_other(folder, entry):
    assert Cache(folder).get(Point(same, {"seed": 7, "value": 1})) == RESULT
    others = [Point(same, {"value": 1, "seed": 8}), Point(digest, dict(POINT.arguments))]
    assert [Cache(folder).get(other) for other in others] == [None, None]


def test_an_entry_cut_off_anywhere_is_not_believed(folder, entry):
    whole = entry.read_bytes()
    for length in range(len(whole)):
        entry.write_bytes(whole[:length])
        assert Cache(folder).get(POINT) is None, length


def test_an_entry_with_a_changed_byte_is_not_believed(folder, entry):
    whole = entry.read_bytes()
    for at in range(len(whole)):
        entry.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        assert Cache(folder).get(POINT) is None, at


def test_an_entry_in_anothers_place_is_not_believed(folder, entry):
    other = Point(same, {"value": 2})
    Cache(folder).put(other, RESULT)
    for file in (path for path in folder.rglob("*") if path.is_file()):
        file.write_bytes(entry.read_bytes())
    assert Cache(folder).get(other) is None
    assert Cache(folder).get(POINT) == RESULT


def test_killed_while_writing_again_leaves_the_whole_result(folder, entry):
    code = f"""
        import os, signal, sys
        sys.path[:0] = {sys.path!r}
        from pathlib import Path
        from weir.runs.point import Point
        from weir.runs.cache import Cache, Result
        from reproduce_points import same
        whole = Path.write_text
        def half(path, text):
            whole(path, text[: len(text) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        Path.write_text = half
        Cache(Path({str(folder)!r})).put(Point(same, {POINT.arguments!r}), Result("other", 0.0))
    """
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(code)])
    assert killed.returncode == -signal.SIGKILL
    assert Cache(folder).get(POINT) == RESULT
    Cache(folder).put(POINT, Result("later", 0.0))
    assert Cache(folder).get(POINT) == Result("later", 0.0)


def test_a_full_disk_is_an_error_that_names_the_path(folder):
    # A limit on the size of files stands for the disk: the write fails half-way.
    code = f"""
        import sys
        sys.path[:0] = {sys.path!r}
        from pathlib import Path
        from weir.errors import Unsupported
        from weir.runs.point import Point
        from weir.runs.cache import Cache, Result
        from reproduce_points import same
        try:
            Cache(Path({str(folder)!r})).put(Point(same, {{"value": 1}}), Result("x" * 9999, 0.0))
        except Unsupported as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )
    assert f"cannot keep a result in {folder}/" in done.stdout
    assert "File too large" in done.stdout
    assert not [path for path in folder.rglob("*") if path.is_file()]


def test_a_folder_that_cannot_be_is_an_error_that_names_it(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Unsupported, match=f"{tmp_path}/file/"):
        Cache(tmp_path / "file").put(POINT, RESULT)
    with pytest.raises(Unsupported, match=f"{tmp_path}/file/"):
        Cache(tmp_path / "file").get(POINT)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(value=values, arguments=st.dictionaries(st.text(max_size=3), values, max_size=3))
@settings(max_examples=100, deadline=None)
def test_whatever_json_says_comes_back(tmp_path_factory, value, arguments):
    cache, point = Cache(tmp_path_factory.mktemp("cache")), Point(same, arguments)
    cache.put(point, Result(value, 0.5))
    assert cache.get(point) == Result(value, 0.5)


def test_not_a_number_comes_back_in_a_result_and_is_refused_in_an_argument(folder):
    Cache(folder).put(POINT, Result(math.nan, 0.0))
    assert math.isnan(Cache(folder).get(POINT).value)
    with pytest.raises(ValueError, match="JSON"):
        identity(Point(same, {"value": math.nan}))


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Modules a (imports b and e), b (imports c) and d in a package that nobody else has."""
    folder = tmp_path / "versioned"
    folder.mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in {
        "__init__": "",
        "a": "import json\nfrom versioned import b, e\n",
        "b": "from versioned.c import x\n",
        "c": "x = 1\n",
        "d": "y = 1\n",
        "e": "z = 1\n",
    }.items():
        (folder / f"{name}.py").write_text(text)
    yield folder
    for name in [name for name in sys.modules if name.split(".")[0] == "versioned"]:
        del sys.modules[name]


def version():
    from weir.runs import version

    for function in (version.code_version, version._imports, version._path, version._source):
        function.cache_clear()
    return code_version("versioned.a")


@pytest.mark.parametrize(("changed", "new"), [*((used, True) for used in "abce"), ("d", False)])
def test_a_version_is_new_when_something_that_is_used_changed(package, changed, new):
    before = version()
    assert version() == before
    with (package / f"{changed}.py").open("a") as file:
        file.write("z = 2\n")
    assert (version() != before) == new


def test_no_module_is_run_to_be_found(package):
    """What rows are listed by need not be installed, and would take seconds."""
    (package / "a.py").write_text("from versioned.b import x\nimport versioned.e.z\n")
    (package / "b.py").write_text("from versioned.c import x\nraise AssertionError('it was run')\n")
    version()
    assert not [name for name in sys.modules if name.startswith("versioned")]


def test_a_version_is_new_when_the_core_was_built_from_other_sources(package, monkeypatch):
    before = version()
    monkeypatch.setattr("weir._core.__source__", "other")
    assert version() != before


def test_an_identity_names_function_arguments_and_code():
    facts = json.loads(identity(POINT))
    assert facts["run"] == "reproduce_points.same"
    assert facts["arguments"] == POINT.arguments
    assert facts["code"] == code_version("reproduce_points")
