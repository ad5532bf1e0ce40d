"""Importing tables, folders of images and LEAF's JSON: the same data as from .npz and .jsonl."""

import json
import struct
import zlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image
from PIL.PngImagePlugin import putchunk
from pyarrow import parquet

from fedlib import datasets
from tests.datasets.conftest import not_imported

ROWS = pd.DataFrame(
    {
        "who": ["ann", "bob", "ann", "bob", "ann"],
        "age": [1, 2, 3, 4, 300],
        "part": ["train", "train", "test", "train", "test"],
        "income": [1, 0, 2, 1, 0],
        "tall": [True, False, True, True, False],
        "height": [0.5, -1.5, 2.0, 1e30, 0.0],
    }
)
NAMES = {"label": "income", "client": "who", "split": "part"}


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".by_owner.parquet"])
def test_a_table(tmp_path, suffix):
    path = tmp_path / f"own{suffix}"
    if suffix == ".csv":
        ROWS.to_csv(path, index=False)
    elif suffix == ".by_owner.parquet":
        ROWS.set_index("who").to_parquet(path)
    else:
        ROWS.set_index(pd.Index([9, 3, 1, 0, 7])).to_parquet(path)
    datasets.import_file("own", path, tmp_path, **NAMES)
    data = datasets.load("own", tmp_path)
    order = ["age", "tall", "height"]
    for split, rows in (("train", [0, 1, 3]), ("test", [2, 4])):
        x = getattr(data, f"{split}_x")
        assert x.dtype == np.float32
        assert np.array_equal(x, ROWS.iloc[rows][order].to_numpy(np.float32))
        assert getattr(data, f"{split}_y").tolist() == ROWS["income"].iloc[rows].tolist()
        owners = [data.clients[code] for code in getattr(data, f"{split}_client")]
        assert owners == ROWS["who"].iloc[rows].tolist()
    # Without clients and splits, with words as labels: every fifth row tests.
    plain = ROWS.drop(columns=["part", "who"]).assign(income=["no", "yes", "no", "yes", "yes"])
    plain.to_csv(tmp_path / "plain.csv", index=False)
    datasets.import_file("plain", tmp_path / "plain.csv", tmp_path, label="income")
    data = datasets.load("plain", tmp_path)
    assert data.classes == ("no", "yes") and data.train_y.tolist() == [0, 1, 0, 1]
    assert data.test_x[:, 0].tolist() == [300] and data.train_client is None


@pytest.mark.parametrize(
    ("change", "columns", "words"),
    [
        (lambda f: f.assign(city="Rome"), NAMES, "column 'city' is"),
        (
            lambda f: f.assign(age=f.age + 2**24),
            NAMES,
            "'age' has 16777217, which float32 holds as",
        ),
        (lambda f: f.assign(age=-(2.0**40) - f.age), NAMES, "'age' has -1099511627777, which"),
        (lambda f: f.assign(age=[1, None, 2, 3, 4]), NAMES, "row 2 has nothing in 'age'"),
        (lambda f: f.assign(who=[None, *"abcd"]), NAMES, "row 1 has nothing in 'client'"),
        (lambda f: f.assign(part="val"), NAMES, "split is 'val'; allowed: 'train' or 'test'"),
        (lambda f: f, {}, "no column 'label', but 'who', 'age', .*; name it by --label"),
        (lambda f: f, {"label": "incom"}, "unknown column 'incom': did you mean 'income'"),
        (lambda f: f.assign(label=1), NAMES, "'income' is named as the label, but there is a"),
        (lambda f: f[["income", "who", "part"]], NAMES, "train_x is empty"),
        (lambda f: f[:0], NAMES, "own.parquet has no rows"),
        (lambda f: f, {"label": "who", "client": "who"}, "'who' is named as label and as client"),
        (lambda f: f.assign(**{"Unnamed: 0": 1}), NAMES, "a column has no name; name it, or if"),
        (
            lambda f: pd.concat([f.drop(columns="part").assign(income=range(5))] * 9),
            {"label": "income"},
            "every fifth row would test, and so all rows of label '4'; give a column of splits",
        ),
    ],
)
def test_bad_tables_are_refused_whole(tmp_path, change, columns, words):
    change(ROWS).to_parquet(tmp_path / "own.parquet")
    not_imported(words, tmp_path / "own.parquet", **columns)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("age,label\n0,2,0\n1,4,1\n", "Expected 2 fields in line 2, saw 3; commas separate fie"),
        ("text,label\nno, thanks,0\nyes, please,1\n", "Expected 2 fields in line 2, saw 3"),
        ("label,label\n1,0\n2,1\n", "two columns are 'label'"),
    ],
)
def test_no_column_of_a_csv_is_taken_for_another(tmp_path, text, words):
    (tmp_path / "own.csv").write_text(text)
    not_imported(words, tmp_path / "own.csv")


@pytest.mark.parametrize("column", ["text", "who", "income"])
def test_bytes_that_are_no_text_are_refused(tmp_path, column):
    raw = pa.array([b"\xff\xfe", *[b"ab"] * 4])
    odd = pa.StringArray.from_buffers(5, raw.buffers()[1], raw.buffers()[2])
    for values, words in ((odd, "Invalid UTF8"), (raw, rf"column '{column}' holds bytes; decode")):
        table = {**ROWS.drop(columns="height").astype(str).to_dict("list"), column: values}
        parquet.write_table(pa.table(table), tmp_path / "own.parquet")
        not_imported(words, tmp_path / "own.parquet", **NAMES)


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("german.csv", {"sep": ";", "decimal": ","}),
        ("points.csv", {"sep": ";"}),
        ("OWN.CSV", {}),
        ("own.tsv", {"sep": "\t"}),
        ("own.csv.gz", {}),
    ],
)
def test_a_table_of_a_spreadsheet_is_the_same_table(tmp_path, name, how):
    ROWS.to_csv(tmp_path / "plain.csv", index=False)
    ROWS.to_csv(tmp_path / name, index=False, **how)
    for own, file in (("a", "plain.csv"), ("b", name)):
        datasets.import_file(own, tmp_path / file, tmp_path, **NAMES)
    one, other = (datasets.load(own, tmp_path) for own in "ab")
    assert np.array_equal(one.train_x, other.train_x) and np.array_equal(one.test_x, other.test_x)
    assert one.clients == other.clients and one.train_y.tolist() == other.train_y.tolist()


def test_arrays_as_keras_and_medmnist_name_them(tmp_path):
    x, y = np.arange(80, dtype=np.uint8).reshape(5, 4, 4), np.arange(5) % 3
    keras = {"x_train": x, "y_train": y, "x_test": x[:2], "y_test": y[:2]}
    med = {"train_images": x, "train_labels": y[:, None]}
    med |= {"test_images": x[:2], "test_labels": y[:2, None]}
    for name, arrays in (("keras", keras), ("med", med)):
        np.savez(tmp_path / f"{name}.npz", **arrays)
        datasets.import_file(name, tmp_path / f"{name}.npz", tmp_path)
        data = datasets.load(name, tmp_path)
        assert np.array_equal(data.train_x, x) and data.test_y.tolist() == y[:2].tolist()
    np.savez(tmp_path / "med.npz", **med, val_images=x)
    not_imported("'val_images' is neither; .* rename: train_x", tmp_path / "med.npz")


def test_a_field_that_says_na_or_007_is_a_word(tmp_path):
    frame = pd.DataFrame({"a": range(6), "y": ["NA", "null"] * 3, "u": ["NA", "b", "None"] * 2})
    frame.to_csv(tmp_path / "own.csv", index=False)
    datasets.import_file("own", tmp_path / "own.csv", tmp_path, label="y", client="u")
    data = datasets.load("own", tmp_path)
    assert data.classes == ("NA", "null") and data.clients == ("NA", "None", "b")
    # So is one that a number would be written otherwise than.
    frame = frame.assign(u=["007", "7", "8"] * 2, y=["1e5", "100000", "3"] * 2)
    frame.to_csv(tmp_path / "own.csv", index=False)
    datasets.import_file("ids", tmp_path / "own.csv", tmp_path, label="y", client="u")
    data = datasets.load("ids", tmp_path)
    assert data.clients == ("007", "7", "8") and data.classes == ("100000", "1e5", "3")
    for number, other in enumerate(("+5", "5.0", "5 ")):
        frame.assign(u=[other, "5", "8"] * 2).to_csv(tmp_path / "own.csv", index=False)
        datasets.import_file(f"u{number}", tmp_path / "own.csv", tmp_path, label="y", client="u")
        assert set(datasets.load(f"u{number}", tmp_path).clients) == {other, "5", "8"}
    frame.assign(u=["1.1", "1.10", "inf"] * 2).to_csv(tmp_path / "own.csv", index=False)
    datasets.import_file("points", tmp_path / "own.csv", tmp_path, label="y", client="u")
    assert datasets.load("points", tmp_path).clients == ("1.1", "1.10", "inf")
    frame.to_csv(tmp_path / "own.csv")
    message = r"a column has no name.*to_csv\(index=False\)"
    not_imported(message, tmp_path / "own.csv", label="y", client="u")


def test_a_table_of_texts(tmp_path):
    (tmp_path / "bad.csv").write_text("text,label\n3,True\n4,False\n")
    not_imported("bad.csv, row 1: text: Input should be a valid string", tmp_path / "bad.csv")
    frame = pd.DataFrame({"text": list("abcdé"), "label": ["x", "y", "x", "y", "x"], "user": 7.0})
    frame.to_csv(tmp_path / "own.csv", index=False)
    datasets.import_file("own", tmp_path / "own.csv", tmp_path, client="user")
    data = datasets.load_text("own", tmp_path)
    assert data.text("test", 0) == "é" and data.clients == ("7",) and data.classes == ("x", "y")
    assert [data.text("train", place) for place in range(4)] == list("abcd")
    flags = frame.assign(label=[True, False, True, True, False], user=[True] * 5)
    flags.to_csv(tmp_path / "flags.csv", index=False)
    datasets.import_file("flags", tmp_path / "flags.csv", tmp_path, client="user")
    data = datasets.load_text("flags", tmp_path)
    assert (data.classes, data.clients) == (("False", "True"), ("True",))
    dated = frame.assign(label=pd.to_datetime(["2020-01-02", "2021-01-02", *["2020-01-02"] * 3]))
    dated.to_parquet(tmp_path / "dated.parquet")
    datasets.import_file("dated", tmp_path / "dated.parquet", tmp_path)
    assert datasets.load_text("dated", tmp_path).classes == ("2020-01-02", "2021-01-02")


def draw(path, value, size=(3, 2), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((*size[::-1], 3), value, np.uint8)).convert(mode).save(path)


@pytest.mark.parametrize(("mode", "shape"), [("RGB", (2, 3, 3)), ("L", (2, 3))])
def test_folders_of_images(tmp_path, mode, shape):
    for value, place in enumerate(["train/cat/1", "train/dog/1", "train/dog/2", "test/dog/9"]):
        draw(tmp_path / "pets" / f"{place}.png", 50 * value, mode=mode)
    datasets.import_file("pets", tmp_path / "pets", tmp_path)
    data = datasets.load("pets", tmp_path)
    assert data.train_x.shape == (3, *shape) and data.train_x.dtype == np.uint8
    assert data.classes == ("cat", "dog") and data.train_y.tolist() == [0, 1, 1]
    assert data.test_y.tolist() == [1] and (data.test_x == 150).all()
    # Of every kind that Pillow reads, in the order of their names; nothing that is hidden.
    for value, kind in enumerate(["png", "PNG", "jp2", "bmp", "gif" if mode == "RGB" else "png"]):
        draw(tmp_path / "flat" / "cat" / f"{value}.{kind}", value, mode=mode)
    (tmp_path / "flat" / "cat" / "._0.png").touch()
    draw(tmp_path / "flat" / ".ipynb_checkpoints" / "0-checkpoint.png", 9)
    datasets.import_file("flat", tmp_path / "flat", tmp_path)
    data = datasets.load("flat", tmp_path)
    assert np.unique(data.train_x).tolist() == [0, 1, 2, 3] and (data.test_x == 4).all()


def leaf(folder, x, y):
    for split in ("train", "test"):
        (folder / split).mkdir(parents=True, exist_ok=True)
        content = {"users": ["f1"], "num_samples": [2], "user_data": {"f1": {"x": x, "y": y}}}
        (folder / split / "all_data_0.json").write_text(json.dumps(content))
    return folder


def test_leafs_json(tmp_path):
    datasets.import_file("own", leaf(tmp_path / "a", [[0.5, 1], [2, 3]], [4, 0]), tmp_path)
    data = datasets.load("own", tmp_path)
    assert data.train_x.tolist() == [[0.5, 1], [2, 3]] and data.test_y.tolist() == [4, 0]
    assert data.clients == ("f1",)
    nested = leaf(tmp_path / "d", [[[0.5], [1]], [[2], [3]]], [4, 0])
    datasets.import_file("nested", nested, tmp_path)
    assert datasets.load("nested", tmp_path).train_x.tolist() == [[0.5, 1], [2, 3]]
    writer = leaf(tmp_path / "b", [[1.0] * 784, [0.0] * 784], [61.0, 0.0])
    datasets.import_file("femnist", writer, tmp_path)
    assert datasets.load("femnist", tmp_path).train_x.shape == (2, 28, 28)
    plays = leaf(tmp_path / "c", ["To be", "or not"], ["e", "f"])
    datasets.import_file("plays", plays, tmp_path)
    assert datasets.load_text("plays", tmp_path).text("train", 1) == "or not"


def odd(folder):
    """Folders and files that cannot be imported, and what is said of them."""
    draw(folder / "sizes/cat/1.png", 1)
    draw(folder / "sizes/cat/2.png", 1, size=(4, 4))
    draw(folder / "grey/cat/1.png", 1)
    draw(folder / "grey/dog/1.png", 1, mode="L")
    (folder / "none/cat").mkdir(parents=True)
    (folder / "empty").mkdir()
    draw(folder / "broken/cat/1.png", 1)
    (folder / "broken/cat/2.png").write_bytes(b"no image")
    draw(folder / "deep/train/cat/1.png", 1)
    draw(folder / "deep/val/cat/2.png", 1)
    for name, kind in (("bits.png", np.uint16), ("floats.tiff", np.float32)):
        (folder / name / "cat").mkdir(parents=True)
        Image.fromarray(np.full((2, 3), 9, kind)).save(folder / name / "cat" / name)
    (folder / "colours.png/cat").mkdir(parents=True)
    with open(folder / "colours.png/cat/colours.png", "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        putchunk(file, b"IHDR", struct.pack(">IIBBBBB", 1, 1, 16, 2, 0, 0, 0))
        putchunk(file, b"IDAT", zlib.compress(bytes(7)))
        putchunk(file, b"IEND")
    draw(folder / "notes/cat/1.png", 1)
    (folder / "notes/cat/notes.txt").write_text("a fine cat")
    draw(folder / "hidden/.cat/1.png", 1)
    for split in ("train", "val", "test"):
        draw(folder / f"three/{split}/cat/1.png", 1)
    draw(folder / "top/cat/1.png", 1)
    (folder / "icons/cat").mkdir(parents=True)
    Image.new("RGBA", (3, 2), (0, 0, 0, 200)).save(folder / "icons/cat/1.png")
    (folder / "top/labels.csv").touch()
    (folder / "pages/cat").mkdir(parents=True)
    page = Image.new("L", (3, 2))
    page.save(folder / "pages/cat/1.tif", save_all=True, append_images=[page, page])
    (folder / "no.csv").write_bytes(b"")
    (folder / "no.parquet").write_bytes(b"PAR1")
    (folder / "latin.csv").write_bytes("text,label\ncafé,1\n".encode("latin-1"))
    (folder / "a.txt").touch()
    leaf(folder / "cut", [], [])
    (folder / "cut/train/all_data_0.json").write_text('{"user_data": {"a"')
    leaf(folder / "words", [["a", "b"]], [1])
    leaf(folder / "lengths", [[1], [2, 3]], [1, 2])
    leaf(folder / "targets", [[1], [2]], [1])
    leaf(folder / "nobody", [], [])
    return {
        "sizes": r"cat/2.png has shape \(4, 4, 3\), cat/1.png \(2, 3, 3\); give all one size",
        "grey": r"dog/1.png has shape \(2, 3\), cat/1.png \(2, 3, 3\); give .* colours or none",
        **dict.fromkeys(("empty", "broken"), "its images cannot be read"),
        "none": "its images cannot be read: class 'cat' has none; put some there, or rem",
        "hidden": "its images cannot be read: class '.cat' has none",
        "notes": "its images cannot be read: cannot identify image file .*notes.txt",
        "three": "three: val would be left out; put it into a class, of train or test, or else",
        "top": "top: labels.csv would be left out",
        "icons": "cat/1.png has transparent points; save it on a background",
        "pages": "cat/1.tif holds 3 images; save each in a file, or give a .npz file",
        "deep": "so that 'train' is no class; name the splits 'train' and 'test', or give",
        **{
            name: f"cat/{name} has more than 8 bits"
            for name in ("bits.png", "colours.png", "floats.tiff")
        },
        **{name: f"{name} cannot be read" for name in ("no.csv", "no.parquet")},
        "latin.csv": "latin.csv is not UTF-8 .*; save it as UTF-8",
        "a.txt": "a.txt cannot be imported",
        **dict.fromkeys(("cut", "targets"), "not as LEAF writes it"),
        "words": "neither texts nor numbers: .*; of rows of words, .* keep the text",
        "lengths": "neither texts nor numbers",
        "nobody": "the train split has no texts",
    }


def test_what_cannot_be_imported_is_told_in_one_line(tmp_path):
    for name, words in odd(tmp_path).items():
        not_imported(words, tmp_path / name)
    not_imported("label names a column of a table", tmp_path / "sizes", label="y")
