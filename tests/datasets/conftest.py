"""Official files of data sets, small ones; no test goes out on the network."""

import dataclasses
import hashlib
import io
import tarfile

import numpy as np
import pytest

from fedlib import datasets
from fedlib.datasets import catalogue
from tests.refusals import refused


def tarred(files, folder="", kind="gz"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=f"w:{kind}") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(folder + name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def holds(data, **expected):
    """Whether these fields of a data set are these arrays or names."""
    for field, value in expected.items():
        assert np.array_equal(getattr(data, field), value), field
    return True


def not_imported(message, path, name="own"):
    """Importing a file is refused in a line that matches the message, and nothing is left."""
    root = path.with_name("root")
    refused(message, datasets.import_file, name, path, root)
    assert not any(path.is_file() for path in root.rglob("*"))


@pytest.fixture
def offer(tmp_path, monkeypatch):
    """Offer files in place of a data set's official ones, everything else as in the table."""

    def offer(name, files):
        original = catalogue.SOURCES[name]
        assert {file.name for file in original.files} == set(files)
        (tmp_path / "offered").mkdir(exist_ok=True)
        offered = []
        for file in original.files:
            path, content = tmp_path / "offered" / file.name, files[file.name]
            path.write_bytes(content)
            sha256 = hashlib.sha256(content).hexdigest()
            offered.append(catalogue.File(file.name, sha256, len(content), (path.as_uri(),)))
        small = dataclasses.replace(original, files=tuple(offered), unpacked=1000, prepared=1000)
        monkeypatch.setitem(catalogue.SOURCES, name, small)
        return small

    return offer
