"""The examples in docstrings run as printed."""

import doctest
import importlib
import pkgutil

import pytest

import fedlib

MODULES = [
    "fedlib",
    *(
        module.name
        for module in pkgutil.walk_packages(fedlib.__path__, "fedlib.")
        if not module.name.endswith("__main__")
    ),
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = (finder.find(importlib.import_module(name)) for name in MODULES)
    assert sum(bool(test.examples) for tests in found for test in tests) >= 4
