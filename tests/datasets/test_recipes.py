"""Recipes: small upstream files of the same form become what the steps say, from wherever they lie;
anything else leaves nothing behind. And the published runs' data are those that recipes make.

One conversion of each form is checked by hand: JSON of LEAF's, pictures beside a table or in the
order of others, pages of plays, XML, and tables of texts. Of all data sets the fingerprints that
``prepare`` demands are those of the published runs.
"""

import gzip
import hashlib
import io
import json
import lzma
import runpy
import struct
import tarfile
import tomllib
import urllib.error
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import torch
from PIL import Image

import fedlib
from fedlib import datasets, paths
from fedlib.datasets import fetching
from fedlib.datasets.catalogue import CATALOGUE, RECIPES, File, edition_of
from fedlib.datasets.conversions import CONVERSIONS
from fedlib.errors import Failure
from tests.datasets.conftest import holds

DRAW = np.random.default_rng(0)
ROOT = Path(__file__).absolute().parents[2]
SHARED = ROOT.parent / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="there is no ../shared/data here")
REAL = dict(RECIPES)
NAME = attrgetter("name")


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def upstream(tmp_path, monkeypatch):
    """Put files in place of an edition's upstream ones: ``upstream(edition, {role: {path: ..}})``.

    They lie in the folder that is returned, in ``owner+name/``; what comes out may have any
    fingerprint.
    """

    def upstream(name, contents):
        real, folder, sources = REAL[name], tmp_path / "given", []
        for source in real.sources:
            found = contents[source.role]
            for path, content in found.items():
                place = folder / source.repo.replace("/", "+") / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)
            listed = [File(path, sha256(content), len(content)) for path, content in found.items()]
            if source.tree:
                lines = "".join(
                    f"{each.sha256}  {each.name}\n" for each in sorted(listed, key=NAME)
                )
                size, whole = sum(each.size for each in listed), sha256(lines.encode())
                tree = replace(source.tree, files=len(listed), bytes=size, sha256=whole)
                sources.append(replace(source, tree=tree))
            else:
                sources.append(replace(source, files=tuple(listed)))
        small = replace(real, card="", prepared=1000, sources=tuple(sources))
        monkeypatch.setitem(RECIPES, name, small)
        return folder

    return upstream


def prepared(name, root, folder=None):
    card = datasets.prepare(name, root, from_folder=folder, progress=False, overwrite=True)
    assert card["name"] == RECIPES[name].data and card["edition"] == name
    assert datasets.verify(card["name"], root) == card
    return card


def texts(root, name):
    """Every text of a prepared data set: split, client, text, and its label or tags."""
    data, rows = datasets.load_text(name, root), []
    for split in ("train", "test"):
        labels = data.labels(split) if f"{split}_label" in data.arrays else None
        for i, client in enumerate(data.client(split)):
            goal = None if labels is None else int(labels[i])
            if f"{split}_tags" in data.arrays:
                goal = data.tags(split, i)
            rows.append((split, data.clients[client], data.text(split, i), goal))
    return rows


# ------------------------------------------------------------------------------- what comes out


def picture(values, kind="PNG"):
    out = io.BytesIO()
    Image.fromarray(values).save(out, kind)
    return out.getvalue()


def test_femnist_by_number_of_the_shard_then_by_name(upstream, tmp_path):
    images, files = {}, {}
    for shard, users in ((10, "b"), (2, "da")):
        for split in ("train", "test"):
            data = {}
            for user in users:
                images[user, split] = DRAW.integers(0, 256, (2, 784))
                labels = [ord(user) % 62, 7]
                data[user] = {"x": (images[user, split] / 255).tolist(), "y": labels}
            path = f"data/femnist/data/{split}/all_data_{shard}_niid_05_keep_0_{split}_9.json"
            whole = {"users": list(users), "num_samples": [2] * len(users), "user_data": data}
            files[path] = json.dumps(whole).encode()
    folder = upstream("femnist_105", {"images": files})
    card = prepared("femnist_105", tmp_path / "root", folder)
    again = datasets.prepare("femnist", tmp_path / "other", from_folder=folder, progress=False)
    assert again["fingerprint"] == card["fingerprint"]  # femnist has this edition only
    data = datasets.load("femnist", tmp_path / "root")
    for split in ("train", "test"):
        x = np.concatenate([images[user, split] for user in "adb"]).reshape(-1, 28, 28)
        y = [label for user in "adb" for label in (ord(user) % 62, 7)]
        expected = {f"{split}_x": x, f"{split}_y": y, f"{split}_client": [0, 0, 1, 1, 2, 2]}
        assert holds(data, **expected)
    assert card["licence"] == "none seen" and card["source"].startswith("slz-ai/leaf-torch at ")


def mnist(tables=True):
    images, files, writers = {}, {}, {}
    for split, folder in (("train", "training"), ("test", "testing")):
        images[split] = DRAW.integers(0, 256, (12, 28, 28), dtype=np.uint8)
        table = DRAW.integers(0, 99, (15, 8))
        for i, x in enumerate(images[split]):
            files[f"{folder}/{table[i, 0] % 10}/{i}.png"] = picture(x)
        table[:, 0] %= 10
        images[f"{split} table"] = table
        packed = struct.pack(">III", 0xC02, *table.shape) + table.astype(">i4").tobytes()
        writers[f"qmnist-{split}-labels-idx2-int.gz"] = gzip.compress(packed)
    return images, {"images": files, "writers": writers}


def test_mnist_with_writers(upstream, tmp_path):
    images, contents = mnist()
    folder = upstream("mnist_writers", contents)
    prepared("mnist_writers", tmp_path, folder)
    data = datasets.load("mnist", tmp_path)
    for split in ("train", "test"):
        table = images[f"{split} table"][:12]
        assert holds(data, **{f"{split}_x": images[split], f"{split}_y": table[:, 0]})
        assert holds(data, **{f"{split}_client": table[:, 2]})


def cifar10():
    """Upstream files of CIFAR-10, and its pictures and labels in official order."""
    classes, expected, sequences = CATALOGUE["cifar10"].classes, {}, {}
    contents = {"images": {}, "order": {}, "train labels": {}, "test labels": {}}
    for split in ("train", "test"):
        labels = DRAW.permutation(np.repeat(np.arange(10), 2))
        small = DRAW.integers(0, 256, (20, 4, 4, 3), dtype=np.uint8)
        x = small.repeat(8, 1).repeat(8, 2) // 2 + DRAW.integers(0, 9, (32, 32, 3), np.uint8)
        for i, name in enumerate(DRAW.permutation(20)):
            kind, place = classes[labels[i]], int((labels[:i] == labels[i]).sum())
            contents["images"][f"{split}/{kind}/thing_s_{name:06d}.png"] = picture(x[i])
            contents["order"][f"{split}/{kind}/{place:04d}.jpg"] = picture(x[i], "JPEG")
        expected |= {f"{split}_x": x, f"{split}_y": labels}
        sequences[split] = io.BytesIO()
    torch.save({"clean_label": expected["train_y"]}, sequences["train"])
    np.save(sequences["test"], expected["test_y"])
    contents["train labels"]["data/human.pt"] = sequences["train"].getvalue()
    path = "original_test_labels/cifar10_test_set_original_labels.npy"
    contents["test labels"][path] = sequences["test"].getvalue()
    return contents, expected


def test_a_file_of_labels_that_would_run_a_program_is_refused(upstream, tmp_path):
    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "evil",))

    contents, evil = cifar10()[0], io.BytesIO()
    torch.save({"clean_label": Evil()}, evil)
    contents["train labels"]["data/human.pt"] = evil.getvalue()
    with pytest.raises(Failure, match=r"the files of 'cifar10' are not as .* UnpicklingError"):
        prepared("cifar10", tmp_path, upstream("cifar10", contents))
    assert not (tmp_path / "evil").exists()


PLAY = b"""<h3>ACT I</h3><A NAME=speech1><b>FIRST LORD.</b></a>
<A NAME=speech2><b>SECOND&nbsp;LORD:</b></a><blockquote>
<A NAME=1.1.1>All  hail,</A><br>
<A NAME=1.1.2><i>caf\xe9</i> &amp; king</A></blockquote>
<A NAME=speech3><b>KING</b></a><h3>SCENE II</h3><A NAME=1.2.1>One</A>
<A NAME=speech4><b>KING</b></a><A NAME=1.2.2>Two</A>
<A NAME=speech5><b>FOOL</b></a><A NAME=1.2.3></A>
<A NAME=speech6><b>FOOL</b></a><A NAME=1.2.4>Ho</A>
<A NAME=speech7><b>FIRST LORD</b></a>
<A NAME=speech8><b>SECOND LORD</b></a><A NAME=1.2.5>Farewell</A>"""


def test_shakespeare_by_role(upstream, tmp_path):
    many = b"".join(b"<a name=speech%d>X</a><a name=1.%d>%d</a>" % (i, i, i) for i in range(11))
    plays = {"zeta/full.html": PLAY, "alpha/full.html": many}
    folder = upstream("shakespeare_plays", {"plays": plays})
    prepared("shakespeare_plays", tmp_path, folder)
    lords = "zeta/FIRST LORD & SECOND LORD"
    rows = [("train", "alpha/X", str(i), None) for i in range(9)]
    rows += [
        ("train", lords, "All hail,\ncaf\xe9 & king", None),
        ("train", "zeta/KING", "One", None),
    ]
    rows += [("test", "alpha/X", "9", None), ("test", "alpha/X", "10", None)]
    rows += [("test", lords, "Farewell", None), ("test", "zeta/KING", "Two", None)]
    assert texts(tmp_path, "shakespeare") == rows


def test_stackexchange_by_site_and_user(upstream, tmp_path):
    def dump(*posts):
        rows = "".join(f"<row {post}/>" for post in posts)
        return f'<?xml version="1.0"?><!DOCTYPE posts><posts>{rows}</posts>'.encode("utf-8-sig")

    def post(number, day, more, user=5):
        return f'Id="{number}" CreationDate="2020-01-{day:02d}T0" OwnerUserId="{user}" {more}'

    body = 'Body="&lt;p&gt;Tea \t&amp;amp; milk&lt;/p&gt;\n\n&lt;li&gt;one&lt;/li&gt;"'
    question = f'PostTypeId="1" Title="Why?" Tags="&lt;tea&gt;&lt;milk&gt;" {body}'
    posts = [
        post(9, 3, f'PostTypeId="2" ParentId="2" {body}'),
        post(2, 4, question),
        post(10, 3, f'PostTypeId="2" ParentId="77" {body}'),
        *(post(n, n, f'PostTypeId="2" ParentId="2" {body}') for n in (20, 21)),
        post(30, 1, f'PostTypeId="5" {body}'),
        post(31, 1, f'PostTypeId="2" ParentId="2" {body}', user=-1),
        post(32, 1, 'PostTypeId="2" ParentId="2" Body="&lt;p&gt;&lt;/p&gt;"'),
    ]
    sites = [source.role for source in RECIPES["stackexchange"].sources]
    contents = {site: {"Posts.xml": dump(post(1, 1, question))} for site in sites[1:]}
    contents = {sites[0]: {"Posts.xml": dump(*posts)}} | contents
    prepared("stackexchange", tmp_path, upstream("stackexchange", contents))
    plain = "Tea & milk\none"
    first = f"{sites[0]}/5"
    asked = ("train", f"Why?\n{plain}", ["tea", "milk"])
    of_first = [f"\n{plain}", f"\n{plain}", f"Why?\n{plain}", f"\n{plain}"]
    tags = [["tea", "milk"], [], ["tea", "milk"], ["tea", "milk"]]
    rows = [("train", first, *pair) for pair in zip(of_first, tags, strict=True)]
    rows += [(asked[0], f"{site}/5", *asked[1:]) for site in sites[1:]]
    rows.sort(key=lambda row: row[1])
    rows.append(("test", first, f"\n{plain}", ["tea", "milk"]))
    assert texts(tmp_path, "stackexchange") == rows


def test_tweets_of_users_with_five(upstream, tmp_path):
    numbers = "polarity;label;tweet_id;date;query;user;text\n4;p;1;d;q;zoe;a;b\n0;n;2;d;q;zoe;c\n"
    head = "tweet_id,airline_sentiment,name,text\n"
    lines = ["1,neutral,amy,n"]
    lines += [f'{i},{"positive" if i % 2 else "negative"},bo,"t, {i}\nmore"' for i in range(10)]
    lines += [f"{i},negative,cy,c{i}" for i in range(4)]
    lines += [f"{i},negative,amy,a{i}" for i in range(5)]
    contents = {"airlines": {"Tweets.csv": (head + "\n".join(lines)).encode()}}
    contents["numbers"] = {"data/sentiment140.csv": numbers.encode()}
    prepared("tweets", tmp_path, upstream("tweets", contents))
    rows = [("train", "user1", f"a{i}", 0) for i in range(4)]
    rows += [("train", "user2", f"t, {i}\nmore", i % 2) for i in range(8)]
    rows += [("test", "user1", "a4", 0)]
    rows += [("test", "user2", f"t, {i}\nmore", i % 2) for i in (8, 9)]
    assert texts(tmp_path, "tweets") == rows


# -------------------------------------------------------------------------- where the files lie


def packed(folder, top):
    """A folder's files as an archive, under a folder as GitHub's are."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        archive.add(folder, top)
    return out.getvalue()


FORMS = ("owner+name", "name", "owner/name", "name-commit", ".tar.gz")


@pytest.mark.parametrize("form", FORMS)
def test_a_repository_may_lie_in_several_forms(upstream, tmp_path, form):
    images, contents = mnist()
    folder = upstream("mnist_writers", contents)
    for source in RECIPES["mnist_writers"].sources:
        place = folder / source.repo.replace("/", "+")
        owner, name = source.repo.split("/")
        for file in source.files:  # an older one elsewhere in the repository, which comes later
            older = place / "test" / file.name
            older.parent.mkdir(exist_ok=True)
            older.write_bytes(b"older")
        to = {
            "name": folder / name,
            "owner/name": folder / owner / name,
            "name-commit": folder / f"{name}-{source.commit}",
        }.get(form, place)
        to.parent.mkdir(exist_ok=True)
        if form == ".tar.gz":
            (folder / f"{name}.tar.gz").write_bytes(packed(place, "."))
            fetching.files.remove(place)
        else:
            place.rename(to)
    prepared("mnist_writers", tmp_path / "root", folder)
    assert holds(datasets.load("mnist", tmp_path / "root"), train_x=images["train"])
    assert not any((tmp_path / "root" / "raw").rglob("*"))


@pytest.fixture
def network(tmp_path, monkeypatch):
    """GitHub, of what lies in ``given/``: the addresses that are asked, and those that fail."""
    asked, down = [], set()

    def urlopen(request, timeout):
        url = request.full_url
        asked.append(url)
        kind, rest = url.removeprefix("https://").split("/", 1)
        owner, name, *more = rest.split("/")
        place = tmp_path / "given" / f"{owner}+{name}"
        if kind in down or not place.is_dir():
            raise urllib.error.URLError("no network")
        if kind == "codeload.github.com":
            assert more[0] == "tar.gz" and len(more[1]) == 40
            path = tmp_path / "archive"
            path.write_bytes(packed(place, f"{name}-{more[1]}"))
        else:
            assert kind == "raw.githubusercontent.com" and len(more[0]) == 40
            path = place / "/".join(more[1:])
        return urllib.request.urlopen(path.as_uri())

    monkeypatch.setattr(fetching, "urlopen", urlopen)
    return asked, down


def test_what_is_missing_is_downloaded_once(upstream, network, tmp_path):
    asked, down = network
    images, contents = mnist()
    upstream("mnist_writers", contents)
    root = tmp_path / "root"
    down.add("raw.githubusercontent.com")
    with pytest.raises(Failure, match=r"cannot download https://raw.*nothing was prepared.*--from"):
        prepared("mnist_writers", root)
    assert len(asked) == 2 and not datasets.prepared(root)
    down.clear()
    prepared("mnist_writers", root)  # without the archive's being asked for again
    assert len(asked) == 4 and asked[0].startswith("https://codeload.github.com/dokechin/mnist_png")
    assert holds(datasets.load("mnist", root), train_x=images["train"])
    prepared("mnist_writers", root)
    prepared("mnist_writers", root, root / "raw")  # which has the form of a given folder
    assert len(asked) == 4


def test_where_the_official_archive_cannot_be_had_the_copies_are_taken(upstream, network, tmp_path):
    asked, _ = network
    contents, expected = cifar10()
    upstream("cifar10", contents)
    prepared("cifar10", tmp_path / "root")
    assert asked[0].startswith("https://www.cs.toronto.edu") and len(asked) == 5
    assert holds(datasets.load("cifar10", tmp_path / "root"), **expected)


def test_files_that_are_others_or_missing_are_refused(upstream, tmp_path):
    _, contents = mnist()
    folder, root = upstream("mnist_writers", contents), tmp_path / "root"

    def refused(message):
        with pytest.raises(Failure, match=message):
            prepared("mnist_writers", root, folder)
        assert not any(root.rglob("*.npy"))

    first = next(iter(contents["images"]))
    images, tables = folder / "dokechin+mnist_png", folder / "facebookresearch+qmnist"
    whole = (images / first).read_bytes()
    for wrong in (whole + b"0", whole[:-1]):
        (images / first).write_bytes(wrong)
        refused(
            "are not the 24 of the commit cfa313def3eb.*nothing was prepared. Remove it, it comes"
        )
    (images / first).write_bytes(whole)
    table = next(tables.iterdir())
    whole = table.read_bytes()
    table.write_bytes(whole[:-1])
    refused(f"{table.name} in .* has SHA-256 .*, expected .*: nothing was prepared")
    table.unlink()
    refused(f"there is no {table.name} in .*: it comes from https://raw.*")
    table.write_bytes(whole)
    images.rename(folder / "elsewhere")
    (folder / "mnist_png.tar.gz").write_bytes(b"no archive")
    refused("mnist_png.tar.gz cannot be read: ")
    (folder / "mnist_png.tar.gz").unlink()
    refused("there is no dokechin/mnist_png in .*: put there a folder dokechin.mnist_png")


def test_what_comes_out_otherwise_is_not_stored(upstream, tmp_path, monkeypatch):
    _, contents = mnist()
    folder = upstream("mnist_writers", contents)
    wrong = replace(RECIPES["mnist_writers"], card="0" * 64)
    monkeypatch.setitem(RECIPES, "mnist_writers", wrong)
    with pytest.raises(
        Failure, match=r"'mnist_writers' has the fingerprint .* published runs used"
    ):
        prepared("mnist_writers", tmp_path / "root", folder)
    assert not datasets.prepared(tmp_path / "root")


def test_all_that_a_notebook_needs(upstream, command, tmp_path):
    """What it is comes from its plan and its tasks; what is prepared stays."""
    train = ("run", "shakespeare", "fedavg", "--preset", "laptop")
    command.refused("'fedlib data prepare --preset laptop'", *train)
    rows = "".join(f'"{i % 4 + 1}","Title {i}","A"\n' for i in range(6002))
    upstream("ag_news_test", {"articles": {"data/ag_news_csv/test.csv": rows.encode()}})
    folder = str(upstream("shakespeare_plays", {"plays": {"zeta/full.html": PLAY}}))
    words = ("data", "prepare", "--notebook", "14", "--notebook", "27", "--from", folder)
    status, out, err = command(*words)
    assert status == 0 and err.startswith("left out dbpedia, which has no recipe: there is no ")
    listed = [line.split() for line in out.splitlines()]
    assert ["shakespeare_plays", "0", "to", "prepare", "14"] in listed
    assert ["ag_news_test", "0", "to", "prepare", "27"] in listed
    assert listed[-1] == "2 data sets prepared, 0 were already".split()
    cards = {card["name"]: card["edition"] for card in datasets.prepared()}
    assert cards == {"ag_news": "ag_news_test", "shakespeare": "shakespeare_plays"}
    there = [line.split() for line in command.says("data", "list").splitlines() if "yes" in line]
    assert [line[line.index("prepare") + 1] for line in there] == sorted(cards.values())
    assert command.json(*words) == []
    whole = Path(folder) / "TheMITTech+shakespeare" / "zeta" / "full.html"
    whole.write_bytes(PLAY + b" ")
    fetching.files.remove(paths.data_root() / "prepared" / "shakespeare")
    status, out, err = command(*words)
    assert status == 1 and "\nfedlib: shakespeare_plays: zeta/full.html in " in err


# --------------------------------------------------------------------- the published runs' data


def test_every_recipe_is_whole_and_has_a_conversion():
    assert set(RECIPES) == set(CONVERSIONS)
    for name, recipe in RECIPES.items():
        assert recipe.data in CATALOGUE and name.startswith(recipe.data)
        assert len({source.role for source in recipe.sources}) == len(recipe.sources)
        for source in recipe.sources:
            assert bool(source.files) != bool(source.tree) and len(source.commit) == 40
            assert source.licence and source.size > 0
            assert len({file.urls for file in source.downloads()}) == len(source.downloads())


def test_all_published_runs_on_real_data_are_on_data_that_can_be_made():
    """By a recipe, or by fedlib: LEAF's generator."""
    made, runs = fedlib.load_task("synthetic", "paper").fingerprint, []
    for path in sorted((ROOT / "data" / "results").glob("*.parquet")):
        packed = pyarrow.parquet.read_metadata(path).metadata[b"runs"]
        runs += [run["config"]["task"] for run in json.loads(lzma.decompress(packed))]
    real = [task for task in runs if not task["stand_in"] and task["preset"] != "quick"]
    known = [task["data"] for task in real if edition_of(task["data"]) or task["data"] == made]
    assert len(real) > 1000 and len(known) == len(real)


@needs_shared
def test_recipes_are_those_that_were_checked_with_the_packs_arrays():
    """``../shared/data/recipes.toml``, whose hashes an independent script has found right."""
    theirs = tomllib.loads((SHARED / "recipes.toml").read_text("utf-8"))
    ours = {recipe.card: recipe for recipe in RECIPES.values()}
    assert {recipe["card"] for recipe in theirs.values()} == set(ours)
    for recipe in theirs.values():
        sources = ours[recipe["card"]].sources
        for source, checked in zip(sources, recipe["sources"], strict=True):
            assert (source.repo, source.commit) == (checked["repo"], checked["commit"])
            files = {
                (each["path"], each["bytes"], each["sha256"]) for each in checked.get("files", ())
            }
            assert {(file.name, file.size, file.sha256) for file in source.files} == files
            tree = source.tree and (source.tree.files, source.tree.bytes, source.tree.sha256)
            assert tree == (checked.get("tree") and (*checked["tree"].values(),))


@needs_shared
@pytest.mark.slow
def test_texts_of_the_packs_are_the_recipes_and_the_published_runs(tmp_path, capsys):
    packs = runpy.run_path(str(SHARED / "convert.py"))
    for name in ("shakespeare", "stackexchange", "tweets", "ag_news"):
        packs["MAKERS"][name](tmp_path)
        card = datasets.import_file(name, tmp_path / f"{name}.jsonl", tmp_path)
        (edition,) = [key for key, recipe in RECIPES.items() if recipe.data == name]
        assert card["fingerprint"] == RECIPES[edition].card and card["edition"] == edition
    for task in ("shakespeare", "stackoverflow_lr", "stackoverflow_nwp"):
        loaded = fedlib.load_task(task, "laptop", data_root=tmp_path)
        edition = edition_of(loaded.fingerprint)
        assert edition and RECIPES[edition].data == loaded.options["data"]


def test_the_page_on_data_has_every_repository_with_its_commit():
    page = (ROOT / "data" / "README.md").read_text("utf-8")
    for name, recipe in RECIPES.items():
        assert f"`{name}`" in page
        for source in recipe.sources:
            assert f"| `{source.repo}`, {source.commit[:12]} | " in page
