"""``fedlib publish`` and ``restore``: runs are packed, and taken up again without training."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fedlib.reproduction import draw, memory
from fedlib.results import Store

PUBLISHED = Path(__file__).resolve().parents[1] / "data" / "results"
Command = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.usefixtures("small_plans")

WORDS = ["sweep", "23_fair_synthetic", "-p", "rounds=2"]


def test_publish_packs_runs_and_what_figures_were_drawn_from(
    command: Command, own_folders: Path
) -> None:

    assert command(*WORDS)[0] == 0
    store = Store(own_folders / "data" / "runs")
    drawn = [run.history() for run in store.stored() if run.config.algorithm != "fedprox"]
    draw.draw("adafedadam/figure_2", drawn, store=store)
    to = own_folders / "published"
    words = ["publish", "23", "-p", "rounds=2", "--to", str(to)]
    status, out, _ = command(*words, "--json")
    (one,) = json.loads(out)
    assert status == 0 and (one["notebook"], one["runs"], one["missing"]) == (
        *("23_fair_synthetic", 4, 0),
    )
    elsewhere = Store(own_folders / "nothing", published=[to])
    assert {run.config.digest for run in elsewhere.stored(published=True)} == {
        run.config.digest for run in store.stored()
    }
    first = elsewhere.load(drawn[0].config.digest)
    assert len(first.clients) == len(drawn[0].clients) > 0  # figure 2 shows the clients
    made = draw.redraw(["adafedadam/figure_2"], store=elsewhere)
    assert made[0].is_file()
    status, out, _ = command(*words, "--seed", "1", "--partial", "--name", "more")
    assert status == 0 and out.startswith("23_fair_synthetic: 2 runs") and "(4 missing)" in out
    assert sorted(path.name for path in to.glob("*.parquet")) == [
        *("23_fair_synthetic.parquet", "more.parquet")
    ]


def test_a_figure_of_a_part_is_published_before_the_notebook_can_draw_it(
    command: Command, own_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the part that is whole; of the other, of which a run is missing, nothing."""
    of = {"adafedadam/figure_2": "mu", "adafedadam/figure_3": "curves"}
    for id, part in of.items():
        monkeypatch.setitem(draw.ENTRIES, id, dataclasses.replace(draw.entry(id), part=part))
    assert command(*WORDS)[0] == 0
    store, to = Store(own_folders / "data" / "runs"), own_folders / "published"
    kept = [run for run in store.stored() if run.config.algorithm == "fedprox"]
    gone = next(run for run in store.stored() if run.config.algorithm != "fedprox")
    store.path(gone.config.digest).unlink()
    words = ["publish", "23", "-p", "rounds=2", "--partial", "--to", str(to)]
    assert "(1 missing)" in command(*words)[1]
    elsewhere = Store(own_folders / "nothing", published=[to])
    known = {id: memory.remembered(elsewhere, draw.entry(id), "quick") for id in of}
    assert not known["adafedadam/figure_3"].runs
    (runs,) = known["adafedadam/figure_2"].runs.values()
    assert sorted(runs) == sorted(run.config.digest for run in kept)
    plans = known["adafedadam/figure_2"].plans
    assert [plans[digest]["part"] for digest in runs] == ["mu"] * len(kept)
    assert draw.redraw(["adafedadam/figure_2"], store=elsewhere)


def test_restored_runs_are_not_trained_again(command: Command, own_folders: Path) -> None:
    assert command(*WORDS)[0] == 0
    root, to = own_folders / "data" / "runs", own_folders / "published"
    first = {run.config.digest: run.history() for run in Store(root).stored()}
    assert command("publish", "23", "-p", "rounds=2", "--to", str(to))[0] == 0
    shutil.rmtree(root)
    status, out, _ = command("restore", "23", "--from", str(to))
    assert (status, out) == (0, "23_fair_synthetic: 4 of 4 runs restored\n")
    status, out, _ = command(*WORDS, "--dry-run", "--json")
    assert status == 0 and json.loads(out)["missing"] == 0
    store = Store(root, published=[])
    for digest, history in first.items():
        accuracy = history.final("accuracy")
        assert store.load(digest).final("accuracy") == pytest.approx(accuracy, rel=1e-6)  # 7 digits
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*.parquet")}
    assert command("restore", "--from", str(to))[1].endswith(": 0 of 4 runs restored\n")
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*.parquet")} == before


def test_a_notebook_without_a_plan_has_no_runs_to_publish(
    command: Command, own_folders: Path
) -> None:
    status, _, err = command("publish", "06", "--to", str(own_folders / "published"))
    assert status == 2 and "06_partitions: no runs to publish" in err


MISTAKES = [
    (["publish"], "Missing argument"),
    (["publish", "99_nothing"], "unknown notebook '99_nothing'"),
    (["publish", "23"], "4 runs of 23_fair_synthetic are not stored; run: fedlib sweep 23"),
    (["publish", "10", "23", "--name", "own", "--partial"], "--name is 'own'; allowed"),
    (["publish", "23", "--name", "../x", "--partial"], "--name is '../x'; allowed"),
    (["publish", "23", "--partial"], "no runs to publish"),
    (
        ["restore", "24_mime_emnist_laptob", "--from", str(PUBLISHED)],
        "did you mean '24_mime_emnist_laptop'",
    ),
    (["restore", "--from", "/nothing"], "no published runs in /nothing"),
]


@pytest.mark.parametrize(
    ("words", "message"), MISTAKES, ids=lambda v: v if isinstance(v, str) else " ".join(v)
)
def test_mistakes_exit_2_with_one_line(
    command: Command,
    own_folders: Path,
    words: list[str],
    message: str,
) -> None:
    status, _, err = command(*words)
    assert status == 2
    assert message in err and err.count("\n") == 1 and "Traceback" not in err
    assert not list(own_folders.rglob("*.parquet"))
