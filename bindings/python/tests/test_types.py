"""The stubs say what the module does."""

import doctest
import subprocess
import sys
from pathlib import Path

import nutfilter
import pytest

HERE = Path(__file__).resolve().parent


def run(*arguments):
    done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, cwd=HERE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_equal_the_module():
    pytest.importorskip("mypy")
    run("mypy.stubtest", "nutfilter", "--ignore-disjoint-bases")


def test_typed_program_passes_strict_checks():
    pytest.importorskip("mypy")
    run("mypy", "--strict", "--warn-unused-ignores", str(HERE / "typed.py"))


def test_examples_in_docstrings():
    for module in [nutfilter, nutfilter.bip158]:
        done = doctest.testmod(module)
        assert done.failed == 0 < done.attempted


def test_public_names_are_documented():
    names = [(nutfilter, name) for name in nutfilter.__all__] + [(nutfilter.bip158, name) for name in nutfilter.bip158.__all__]
    for module, name in names:
        public = getattr(module, name)
        assert public.__doc__, name
        for attribute, value in vars(public).items() if isinstance(public, type) else []:
            if not attribute.startswith("_") and callable(value):
                assert getattr(public, attribute).__doc__, f"{name}.{attribute}"
