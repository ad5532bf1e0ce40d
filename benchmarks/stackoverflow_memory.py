"""Stack Overflow's files at scale: how much memory and time preparing and reading them takes.

    python benchmarks/stackoverflow_memory.py --sentences 5000000 --folder FOLDER

makes HDF5 files of the layout of TFF's (Zipf words, users with heavy-tailed numbers of sentences),
prepares them, opens the result memory-mapped and draws rounds of 50 clients as next-word prediction
does. Every phase is a process of its own; what it held at most is printed. The files stay in the
folder (about 450 bytes a sentence in all), so a phase can be repeated alone with ``--phase``.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

PHASES = ("generate", "prepare", "open", "rounds", "verify")
WORDS, TAGS, POOL = 60_000, 2_000, 200_000


def main() -> None:
    """Run all phases, each in a process of its own, or one phase here."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=5_000_000, help="in the training split")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--phase", choices=PHASES)
    options = parser.parse_args()
    if options.phase is None:
        for phase in PHASES:
            subprocess.run([sys.executable, *sys.argv, "--phase", phase], check=True)
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    import torch  # noqa: F401  # so that every phase counts what importing fedlib takes

    from fedlib import datasets  # noqa: F401

    before, start, cpu = _peak(), time.perf_counter(), time.process_time()
    count = globals()[options.phase](options.folder, options.sentences)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    print(
        f"{options.phase:9} {count:>12,} sentences  {seconds:8.1f} s ({cpu:.1f} s of CPU)  "
        f"{count / max(seconds, 1e-9):>12,.0f} a second  peak {_peak() / 2**20:6.0f} MiB, "
        f"of which {before / 2**20:.0f} before it began; at the end {_anonymous():.0f} MiB are its "
        "own and not pages of files",
        flush=True,
    )


def _peak() -> int:
    """Largest resident memory of this process so far, in bytes (Linux counts in KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _anonymous() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


def generate(folder: Path, sentences: int) -> int:
    """HDF5 files of a training split, and of others a tenth of its size."""
    import h5py

    random = np.random.default_rng(0)
    names = np.array([f"{chr(97 + i % 26)}w{i}" for i in range(WORDS)], dtype=object)
    lines = (f"{name} {WORDS - i}\n" for i, name in enumerate(names))
    (folder / "stackoverflow.word_count").write_text("".join(lines))
    tags = [f"tag{i}" for i in range(TAGS)]
    counts = {tag: TAGS - i for i, tag in enumerate(tags)}
    (folder / "stackoverflow.tag_count").write_text(json.dumps(counts))
    zipf = 1 / (np.arange(WORDS) + 2.7) ** 1.1

    def texts(mean: float, low: int) -> np.ndarray:
        sizes = low + random.poisson(random.gamma(4, (mean - low) / 4, POOL))
        flat = names[random.choice(WORDS, sizes.sum(), p=zipf / zipf.sum())]
        ends = np.cumsum(sizes)
        out = [" ".join(flat[a:b]) for a, b in zip(ends - sizes, ends, strict=True)]
        return np.array(out, dtype=object)

    chosen = random.zipf(1.5, (POOL, 3)) % TAGS
    pool = {
        "tokens": texts(13, 1),
        "title": texts(8, 2),
        "tags": np.array(["|".join(tags[i] for i in set(row)) for row in chosen], dtype=object),
        "creation_date": np.array([f"2012-01-01 00:00:{i % 60:02}.0" for i in range(POOL)], object),
        "type": np.array(["question", "answer"] * (POOL // 2), dtype=object),
    }
    total = 0
    for split, part in (("train", 1.0), ("held_out", 0.1), ("test", 0.1)):
        clients = max(int(sentences * part) // 400, 2)
        sizes = random.pareto(1.3, clients) + 0.1
        sizes = np.maximum(1, np.round(sizes / sizes.sum() * sentences * part)).astype(int)
        with h5py.File(folder / f"stackoverflow_{split}.h5", "w") as file:
            examples = file.create_group("examples")
            for client, size in enumerate(sizes.tolist()):
                one = examples.create_group(f"{client:08}")
                rows = random.integers(0, POOL, size)
                for key, values in pool.items():
                    one.create_dataset(key, data=values[rows], dtype=h5py.string_dtype())
                one.create_dataset("score", data=rows)
        total += int(sizes.sum())
    return total


def prepare(folder: Path, sentences: int) -> int:
    """HDF5 to arrays, as ``fedlib data prepare stackoverflow`` does after the download."""
    from fedlib.datasets import store
    from fedlib.datasets.tff import WRITERS

    files = {path.name: path for path in folder.glob("stackoverflow[._]*")}
    with store.writing("stackoverflow", folder, overwrite=True) as aside:
        card = WRITERS["stackoverflow"](files, aside, False)
        card = store.write_card(aside, {"name": "stackoverflow", "source": "generated", **card})
    return sum(card["counts"][split] for split in ("train", "heldout", "test"))


def open(folder: Path, sentences: int) -> int:
    """Open all splits, and count the targets of every training client (the weights)."""
    from fedlib import datasets

    posts = datasets.load_posts("stackoverflow", folder)
    posts["train"].targets()
    return sum(map(len, posts.values()))


def rounds(folder: Path, sentences: int, number: int = 200, cohort: int = 50) -> int:
    """Random cohorts: each client's first 1000 sentences, shuffled, in batches of 16."""
    import torch

    from fedlib import datasets

    train = datasets.load_posts("stackoverflow", folder)["train"]
    random, seen = np.random.default_rng(0), 0
    for _ in range(number):
        for client in random.choice(len(train.clients), cohort, replace=False):
            begin = train.starts[client]
            size = min(int(train.starts[client + 1] - begin), 1000)
            order = begin + random.permutation(size)
            for batch in np.split(order, range(16, size, 16)):
                tokens = torch.from_numpy(train.sentences[batch]).long()
                seen += int((tokens[:, 1:] != 0).any(1).sum())
    return seen


def verify(folder: Path, sentences: int) -> int:
    """Hash all arrays again."""
    from fedlib import datasets

    return sum(
        count
        for key, count in datasets.verify("stackoverflow", folder)["counts"].items()
        if not key.endswith("clients")
    )


if __name__ == "__main__":
    main()
