"""The examples in docstrings run as printed."""

import doctest
import importlib
import pkgutil

import pytest

import fedlib

NAMES = [module.name for module in pkgutil.walk_packages(fedlib.__path__, "fedlib.")]


@pytest.mark.parametrize("name", ["fedlib", *NAMES])
def test_examples(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0
