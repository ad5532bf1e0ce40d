"""Figures: what is drawn is what is stored, the files say where from, and nothing trains."""

import dataclasses
import io
import json
import os
import shutil
import sys
import threading

import matplotlib
import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import fedlib
from fedlib import engine, figures
from fedlib.engine.program import Program
from fedlib.figures import style
from fedlib.figures.save import NOTE, note, picture, render
from fedlib.reproduction import draw as catalogue
from fedlib.reproduction.draw import memory
from fedlib.reproduction.printed import printed_curves
from fedlib.reproduction.tables import Cell, Item
from fedlib.results import Store, reading
from fedlib.results.files import open_run, write_run

save_module = sys.modules["fedlib.figures.save"]  # the package exports a function of that name
ALGORITHMS = ("fedavg", "fedadam")


@pytest.fixture(scope="module")
def synthetic():
    return fedlib.load_task("synthetic", clients=10)


@pytest.fixture(scope="module")
def made(tmp_path_factory, synthetic):
    """A store with synthetic runs of two seeds; copied for each test."""
    store = Store(tmp_path_factory.mktemp("store") / "runs", published=[])
    requests = [{"algorithm": a, "seed": s} for a in ALGORITHMS for s in (0, 1)]
    return store, store.runs(synthetic, requests, rounds=4)


@pytest.fixture
def store(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDLIB_FIGURES", str(tmp_path / "figures"))
    shutil.copytree(made[0].root, tmp_path / "runs")
    return Store(tmp_path / "runs")


@pytest.fixture
def histories(made):
    return made[1]


@pytest.fixture
def quick_pictures(monkeypatch):
    """For tests that do not look at the pictures."""

    def stub(figure, text, kind="png"):
        save_module.mark(figure, text)
        return kind.encode()

    monkeypatch.setattr(save_module, "render", stub)


def as_task(history, name, **changes):
    """The same numbers under another task's name."""
    task = {**history.config.task, "name": name, **changes}
    return dataclasses.replace(history, config=dataclasses.replace(history.config, task=task))


def put(store, history):
    """Store a history made by :func:`as_task`."""
    task = fedlib.load_task("synthetic", clients=1)
    return write_run(store.root, task, history, False, False)


def lines(ax):
    return {line.get_label(): line for line in ax.get_lines()}


def test_lines_equal_the_data_and_the_histories(histories):
    figure, data = figures.learning_curves(histories, title="Synthetic")
    drawn = lines(figure.axes[0])
    assert set(drawn) == {"FedAvg", "FedAdam"}
    for name in ALGORITHMS:
        own = [h.series() for h in histories if h.config.algorithm == name]
        expected = 100 * np.mean([series.to_numpy() for series in own], axis=0)
        part = data[data["algorithm"] == name]
        line = drawn[style.look(name).label]
        np.testing.assert_array_equal(line.get_xdata(), own[0].index)
        np.testing.assert_allclose(line.get_ydata(), expected, rtol=1e-12)
        np.testing.assert_array_equal(part["mean"], line.get_ydata())
        spread = 100 * np.std([series.to_numpy() for series in own], axis=0, ddof=1)
        np.testing.assert_allclose(part["std"], spread, atol=1e-12)
        assert (part["seeds"] == 2).all()
    assert len(figure.axes[0].collections) == 2  # a band each
    ax = figure.axes[0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("round", "test accuracy (%)")
    assert ax.get_title() == "Synthetic"


def test_one_seed_has_no_band(histories):
    figure, data = figures.learning_curves(histories[:1])
    assert not figure.axes[0].collections and data["std"].isna().all()


def test_printed_values_stand_at_the_right_edge(histories):
    printed = {"fedavg": 90.08, "fedadam": 89.97}
    figure, _ = figures.learning_curves(histories, printed=printed, printed_rounds=1000)
    ax = figure.axes[0]
    drawn = lines(ax)
    for name, value in printed.items():
        mark = drawn[f"_printed {name}"]
        assert list(mark.get_ydata()) == [value, value] and min(mark.get_xdata()) >= 1
        assert mark.get_color() == style.look(name).color
    assert ax.get_ylim()[1] > 90.08
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["FedAvg", "FedAdam", "printed (1000 rounds)"]


def test_a_missing_metric_or_no_runs_is_an_error(histories):
    with pytest.raises(fedlib.Error, match="unknown metric 'test mse'"):
        figures.learning_curves(histories, metric="mse")
    with pytest.raises(fedlib.Error, match="no runs to draw"):
        figures.learning_curves([])


def test_client_distribution(histories):
    figure, data = figures.client_distribution(histories)
    line = lines(figure.axes[0])["FedAvg"]
    values = [
        h.clients.query("metric == 'accuracy' and examples > 0")["value"]
        for h in histories
        if h.config.algorithm == "fedavg"
    ]
    pooled = 100 * np.sort(np.concatenate(values))
    np.testing.assert_allclose(line.get_xdata(), pooled)
    part = data[data["algorithm"] == "fedavg"]
    np.testing.assert_array_equal(part["value"], line.get_xdata())
    np.testing.assert_array_equal(part["share"], line.get_ydata())
    assert part["share"].iloc[-1] == 100
    for x in (25.0, 60.0):
        below = part.loc[part["value"] <= x, "share"].max()
        assert np.isnan(below) or below == pytest.approx(100 * (pooled <= x).mean())


def not_blank(path):
    image = matplotlib.image.imread(path)
    assert image.shape[0] > 300 and image.shape[1] == 1100  # 5.5 in at 200 dpi
    return len(np.unique(image[..., :3].sum(-1))) > 20


def test_draw_saves_everything(store, histories, tmp_path):
    drawn = figures.draw("adafedadam/figure_2", histories, store=store)
    folder = tmp_path / "figures" / "adafedadam"
    assert drawn.path == folder / "figure_2.png"
    assert sorted(p.name for p in folder.iterdir()) == [
        f"figure_2.{suffix}" for suffix in ("csv", "json", "pdf", "png")
    ]
    assert not_blank(drawn.path)
    pdf = (folder / "figure_2.pdf").read_bytes()
    assert pdf.startswith(b"%PDF") and pdf.rstrip().endswith(b"%%EOF")
    assert b"/FontFile2" in pdf and b"/Type3" not in pdf  # TrueType, embedded
    assert b"CreationDate" not in pdf
    csv = pd.read_csv(folder / "figure_2.csv")
    left, _, right = drawn.figure.axes
    for name in ALGORITHMS:
        rows = csv[(csv["panel"] == "average") & (csv["algorithm"] == name)]
        np.testing.assert_allclose(
            rows["mean"], lines(left)[style.look(name).label].get_ydata(), 1e-15
        )
        rows = csv[(csv["panel"] == "clients") & (csv["algorithm"] == name)]
        np.testing.assert_array_equal(
            rows["value"], lines(right)[style.look(name).label].get_xdata()
        )
    record = json.loads((folder / "figure_2.json").read_text())
    assert record["runs"] == [h.config.digest for h in histories]
    assert record["data"] == "real" and record["presets"] == ["quick"] and record["seeds"] == [0, 1]
    assert record["id"] == "adafedadam/figure_2" and "Figure 2" in record["caption"]
    assert record["versions"]["fedlib"] and record["created"]


def test_files_are_the_same_bytes_again(store, histories, tmp_path):
    folder = tmp_path / "figures" / "adafedadam"
    figures.draw("adafedadam/figure_2", histories, store=store)
    before = {s: (folder / f"figure_2.{s}").read_bytes() for s in ("png", "pdf", "csv")}
    for path in folder.iterdir():  # a PDF that lies there may be taken as it is
        path.unlink()
    figures.redraw(["adafedadam/figure_2"], store=store)
    assert before == {s: (folder / f"figure_2.{s}").read_bytes() for s in before}


def test_a_pdf_is_drawn_again_only_if_it_is_damaged_or_would_show_something_else(
    tmp_path, monkeypatch
):
    kinds = []

    def counted(figure, note="", kind="png"):
        kinds.append(kind)
        return render(figure, note, kind)

    monkeypatch.setattr(save_module, "render", counted)

    def pdfs(title, value=1.0, **options):
        figure = Figure(figsize=(1, 1))
        figure.suptitle(title)
        kinds.clear()
        with monkeypatch.context() as patch:
            for name, option in options.items():
                patch.setattr(save_module, name, option)
            data = pd.DataFrame({"x": [value]})
            path = figures.save(figure, "a/b", data, caption="", histories=(), root=tmp_path)
        return kinds.count("pdf"), path.with_suffix(".pdf")

    first, path = pdfs("one")
    drawn = path.read_bytes()
    assert first == 1 and pdfs("one")[0] == 0 and path.read_bytes() == drawn
    assert pdfs("two")[0] == 1 and path.read_bytes() != drawn
    assert pdfs("two", value=2.0)[0] == 1
    assert pdfs("two", value=2.0, version=lambda name: "another")[0] == 1
    path.write_bytes(drawn[:100])
    assert pdfs("two", value=2.0)[0] == 1 and path.read_bytes()[-6:].strip() == b"%%EOF"
    path.with_suffix(".json").write_text("{")
    assert pdfs("two", value=2.0)[0] == 1
    path.unlink()
    assert pdfs("two", value=2.0)[0] == 1 and path.is_file()


def test_a_saved_figure_is_shown_as_it_was_saved_until_it_changes(tmp_path):
    figure = Figure(figsize=(2, 1))
    data = pd.DataFrame({"x": [1.0]})
    assert picture(figure) is None
    path = figures.save(figure, "a/b", data, caption="", histories=(), root=tmp_path)
    assert picture(figure) == path.read_bytes()
    figure.suptitle("later")
    assert picture(figure) is None


def test_the_users_own_style_does_not_leak_in(histories):
    plain = render(figures.learning_curves(histories)[0])
    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9, "savefig.dpi": 10}):
        odd = render(figures.learning_curves(histories)[0])
    assert plain == odd


def test_one_changed_stored_value_changes_the_drawing(store, histories, tmp_path):
    figures.draw("adafedadam/figure_2", histories, store=store)
    folder = tmp_path / "figures" / "adafedadam"
    before = {s: (folder / f"figure_2.{s}").read_bytes() for s in ("png", "pdf", "csv")}
    changed = dataclasses.replace(histories[0], frame=histories[0].frame.copy())
    frame = changed.frame
    frame.loc[(frame["metric"] == "accuracy") & (frame["round"] == 2), "value"] += 0.1
    write_run(store.root, fedlib.load_task("synthetic", clients=1), changed, False, True)
    figures.redraw(["adafedadam/figure_2"], store=store)
    after = {s: (folder / f"figure_2.{s}").read_bytes() for s in before}
    assert all(before[s] != after[s] for s in before)


def corner(figure):
    return [text.get_text() for text in figure.texts if text.get_gid() == NOTE]


def test_the_note_tells_stand_ins_and_presets(quick_pictures, store, histories, synthetic):
    drawn = figures.draw("adafedadam/figure_2", histories, store=store)
    assert corner(drawn.figure) == ["quick preset: 4 rounds, 10 clients"]
    render(drawn.figure, "another")
    assert corner(drawn.figure) == ["another"]
    fake = [as_task(h, "synthetic", stand_in=True) for h in histories]
    assert note(fake).startswith("stand-in data, quick preset")
    paper = [as_task(h, "synthetic", preset="paper") for h in histories]
    assert note(paper) == "4 of 100 rounds"  # what the task itself runs is stored with the run
    for history in paper:
        history.meta = {**history.meta, "settings": {"rounds": 4}}
    assert note(paper) == ""
    figure = Figure()
    render(figure, note(paper))
    assert corner(figure) == []


def test_tasks_merge_into_one_figure(quick_pictures, store, histories, tmp_path):
    fake = {"stand_in": True}
    one = [put(store, as_task(h, "cifar100", **fake)) for h in histories]
    two = [put(store, as_task(h, "cifar10", **fake)) for h in histories[:2]]
    first = figures.draw("fedopt/figure_1", one, store=store)
    assert [ax.get_title() for ax in first.figure.axes] == ["CIFAR-100"]
    second = figures.draw("fedopt/figure_1", two, store=store)
    assert [ax.get_title() for ax in second.figure.axes] == ["CIFAR-10", "CIFAR-100"]
    assert set(second.data["task"]) == {"cifar10", "cifar100"}
    assert "stand-in data" in " ".join(corner(second.figure))
    marks = lines(second.figure.axes[0])
    assert marks["_printed fedavg"].get_ydata()[0] == 72.8
    # New runs of a task replace its old ones.
    third = figures.draw("fedopt/figure_1", one[:1], store=store)
    record = json.loads((tmp_path / "figures/fedopt/figure_1.json").read_text())
    assert record["runs"] == [h.config.digest for h in (*two, one[0])]
    assert len(third.figure.axes) == 2
    assert figures.redraw(["fedopt/figure_1"], store=store)[0].is_file()


def test_tables(store, histories, tmp_path):
    drawn = figures.draw("adafedadam/table_5", histories, store=store)
    assert drawn.figure is None
    assert drawn.path == tmp_path / "figures" / "adafedadam" / "table_5.html"
    row = drawn.data.query("method == 'FedAvg' and metric == 'avg'").iloc[0]
    expected = [h.final(window=1) for h in histories if h.config.algorithm == "fedavg"]
    assert row["ours"] == pytest.approx(100 * np.mean(expected)) and row["printed"] == 90.08
    text = drawn.path.read_text()
    assert f"{row['ours']:.2f}" in text and "90.08" in text and "quick preset" in text
    before = drawn.path.read_bytes()
    figures.redraw(["adafedadam/table_5"], store=store)
    assert drawn.path.read_bytes() == before


def test_table_style():
    frame = pd.DataFrame({"name": ["a<b", "c"], "value": [1.234, np.nan], "count": [1, 2]})
    text = figures.table(frame, caption="Cap", bold_max="value", labels={"value": "v"}).to_html()
    assert "a&lt;b" in text and "1.23" in text and "–" in text and "Cap" in text
    assert "bold" in text and ">v<" in text and "1.00" not in text
    assert (
        text
        == figures.table(frame, caption="Cap", bold_max="value", labels={"value": "v"}).to_html()
    )


def test_redraw_cannot_train(quick_pictures, store, histories, monkeypatch):
    figures.draw("adafedadam/figure_2", histories, store=store)

    def refuse(*_, **__):
        raise AssertionError("trained")

    for name in ("execute", "run", "grid"):
        monkeypatch.setattr(engine, name, refuse)
    monkeypatch.setattr(Program, "__init__", refuse)
    assert len(figures.redraw(["adafedadam/figure_2"], store=store)) == 1


def test_missing_memory_or_run_names_the_notebook(quick_pictures, store, histories, tmp_path):
    with pytest.raises(fedlib.Error, match="fedlib reproduce 10_cifar10") as caught:
        figures.redraw(["fedopt/figure_1"], store=store)
    makers = figures.entry("fedopt/figure_1").notebooks.values()
    assert all(maker in str(caught.value) for maker in makers) and "\n" not in str(caught.value)
    figures.draw("adafedadam/figure_2", histories, store=store)
    shutil.rmtree(store.path(histories[1].config))
    with pytest.raises(fedlib.Error, match="fedlib reproduce 23_fair_synthetic") as caught:
        figures.redraw(["adafedadam/figure_2"], store=store)
    assert histories[1].config.digest in str(caught.value)
    with pytest.raises(fedlib.Error, match="unknown figure 'fedopt/figure1'"):
        figures.redraw(["fedopt/figure1"], store=store)
    with pytest.raises(fedlib.Error, match="01_client_drift"):
        figures.redraw(["theory/client_drift"], store=store)


def test_redraw_all_draws_what_it_can_before_it_complains(
    quick_pictures, store, histories, tmp_path
):
    path = figures.draw("adafedadam/figure_2", histories, store=store).path
    path.unlink()
    with pytest.raises(fedlib.Error, match=r"\d+ of \d+ figures not drawn"):
        figures.redraw(store=store)
    assert path.is_file()


def test_redraw_from_published_runs(quick_pictures, store, histories, tmp_path):
    figures.draw("adafedadam/figure_2", histories, store=store)
    store.root.rename(tmp_path / "results")
    elsewhere = Store(tmp_path / "runs")
    assert figures.redraw(["adafedadam/figure_2"], store=elsewhere)
    assert not elsewhere.root.exists()


def test_draw_refuses_what_it_cannot_show(store, histories):
    with pytest.raises(fedlib.Error, match="unknown task of figure fedopt/figure_1 'synthetic'"):
        figures.draw("fedopt/figure_1", histories, store=store)
    with pytest.raises(fedlib.Error, match="no runs"):
        figures.draw("fedopt/figure_1", [], store=store)
    with pytest.raises(fedlib.Error, match="<paper>/<name>"):
        figures.save(Figure(), "../x", pd.DataFrame({"a": [1]}), caption="", histories=[])
    with pytest.raises(fedlib.Error, match="no data"):
        figures.save(Figure(), "a/b", pd.DataFrame(), caption="", histories=[])


def test_a_crash_while_saving_keeps_the_old_files(
    quick_pictures, store, histories, tmp_path, monkeypatch
):
    path = figures.draw("adafedadam/figure_2", histories, store=store).path
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        figures.redraw(["adafedadam/figure_2"], store=store)
    assert path.read_bytes() == before
    assert not [p for p in path.parent.iterdir() if p.name.startswith(".")]


def test_heat_map():
    grid = fedlib.grid(
        fedlib.load_task("quadratic"),
        "fedavg",
        rounds=3,
        overrides={"local_steps": 1},
        client_lr=[0.1, 1.0, 1e30],
        server_lr=[0.1, 1.0],
    )
    figure, data = figures.heat_map(grid, metric="loss", percent=False)
    ax = figure.axes[0]
    image = ax.get_images()[0].get_array()
    assert image.shape == (2, 3)
    for row in data.itertuples():
        y, x = [0.1, 1.0].index(row.server_lr), [0.1, 1.0, 1e30].index(row.client_lr)
        cell = grid.query(
            "client_lr == @row.client_lr and server_lr == @row.server_lr and split == 'test'"
        )
        if row.client_lr == 1e30:
            assert np.isnan(row.value) and row.diverged >= 1
            assert np.ma.getmaskarray(image)[y, x] or np.isnan(image[y, x])
        else:
            assert row.value == cell["value"].iloc[-1] == image[y, x]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["-1", "0", "30"]
    assert ax.get_xlabel() == "log10 client learning rate"
    hatched = {(p.get_x(), p.get_y()) for p in ax.patches if p.get_hatch()}
    assert hatched == {(1.5, -0.5), (1.5, 0.5)}
    png = render(figure)
    assert len(np.unique(matplotlib.image.imread(io.BytesIO(png)))) > 20
    twice = pd.concat([grid, grid])
    with pytest.raises(fedlib.Error, match="several runs for one"):
        figures.heat_map(twice, metric="loss")
    with pytest.raises(fedlib.Error, match="unknown column"):
        figures.heat_map(grid, x="tau", metric="loss")


def test_every_algorithm_has_its_own_look():
    names = (
        "fedavg fedavgm fedadagrad fedadam fedyogi scaffold fedprox fednova qfedavg adafedadam "
        "mime mimelite mime_mvr mimelite_mvr loc_mime moon lookahead adaalter centralized n_accadam"
    ).split()
    assert set(fedlib.list_algorithms()) <= set(names) == set(style.LOOKS)
    looks = [style.look(name) for name in names]
    assert len({look.label for look in looks}) == len(names)
    assert len({(look.color, look.marker, str(look.linestyle)) for look in looks}) == len(names)
    together = [style.look(name).color for name in names[:5]]  # one figure of FedOpt
    assert len(set(together)) == 5
    assert style.look("FedOpt") == style.look("FedOpt")


def test_catalogue_entries():
    ids = [entry.id for entry in figures.entries()]
    assert len(ids) == len(set(ids)) and ids[:2] == ["fedopt/figure_1", "fedopt/table_1"]
    assert {"adafedadam/figure_2", "adafedadam/table_5"} <= set(ids)
    assert "10_cifar10" in figures.entry("fedopt/figure_1").notebook
    assert figures.entry("fedopt/figure_1").paper == "fedopt"


def test_the_stored_runs_are_whole_after_all_this(made):
    assert all(open_run(path) for path in made[0].root.glob("synthetic/*-*"))


def test_lines_may_stand_for_something_else_than_the_algorithm(store, synthetic):
    runs = store.runs(
        synthetic,
        [
            {"overrides": {"client_optimizer": "sgdm"}},
            {"overrides": {"client_optimizer": "sgdm", "client_schedule": "step_decay"}},
            {"overrides": {"client_optimizer": "delta_sgd"}},
        ],
        algorithm="fedavg",
        rounds=2,
    )
    names = ["sgdm", "sgdm_decay", "delta_sgd"]
    figure, data = figures.learning_curves(runs, by=reading.client_label)
    assert list(data["algorithm"].unique()) == names
    labels = [style.CLIENT_LOOKS[name].label for name in names]
    assert list(lines(figure.axes[0])) == labels == ["SGDM", "SGDM (decay)", "Δ-SGD"]
    _, shares = figures.client_distribution(runs, by=reading.client_label)
    assert list(shares["algorithm"].unique()) == names
    looks = [(look.color, look.linestyle) for look in style.CLIENT_LOOKS.values()]
    assert len(set(looks)) == len({look.color for look in style.CLIENT_LOOKS.values()}) == 8


def test_printed_marks_belong_to_the_runs_with_the_cells_method(store, synthetic):
    def cell(printed, optimizer):
        return Cell(
            optimizer, "fedavg", "avg", printed, {"client_optimizer": optimizer}, column="1"
        )

    table = (cell(80.0, "sgdm"), cell(90.0, "delta_sgd"), Cell("x", "fedavg", "avg", 9.0))
    item = Item("own", "Table 9", "synthetic", "Synthetic", table, "23_fair_synthetic", 9, None, 10)
    requests = [{"overrides": {"client_optimizer": name}} for name in ("delta_sgd", "sgdm")]
    runs = store.runs(synthetic, requests, algorithm="fedavg", rounds=2)
    ax = Figure().subplots()
    data = printed_curves(item, runs, "avg", column="1", by=reading.client_label, ax=ax)
    assert data.groupby("algorithm")["printed"].first().to_dict() == {"delta_sgd": 90, "sgdm": 80}
    assert lines(ax)["_printed sgdm"].get_ydata()[0] == 80.0
    assert ax.get_title() == "Synthetic" and (data["printed_rounds"] == 9).all()


def test_notebooks_that_draw_into_one_figure_at_once_lose_nothing(
    quick_pictures, store, histories, monkeypatch
):
    """The first waits in the middle of drawing until the second had every chance to overtake."""
    one = [put(store, as_task(h, "cifar100")) for h in histories]
    two = [put(store, as_task(h, "cifar10")) for h in histories]
    second = threading.Thread(
        target=figures.draw, args=("fedopt/figure_1", two), kwargs={"store": store}
    )
    plain = memory.remember

    def slow(*given):
        if not second.is_alive() and second.ident is None:
            second.start()
            second.join(0.5)
        plain(*given)

    monkeypatch.setattr(catalogue, "remember", slow)
    figures.draw("fedopt/figure_1", one, store=store)
    second.join(60)
    entry = figures.entry("fedopt/figure_1")
    assert set(memory.remembered(store, entry)) == {"cifar100", "cifar10"}


def test_what_is_published_of_a_figure(quick_pictures, store, histories, tmp_path):
    figures.draw("adafedadam/figure_2", histories, store=store)
    entry = figures.entry("adafedadam/figure_2")
    known = memory.known(store, entry, ["synthetic", "fair_femnist"])
    assert known == {"synthetic": [h.config.digest for h in histories]}
    assert memory.known(store, entry, ["fair_femnist"]) == {}
    memory.publish(tmp_path / "results", entry, {"fair_femnist": ["0" * 16]})
    memory.publish(tmp_path / "results", entry, known)
    memory.publish(tmp_path / "results", entry, {})
    elsewhere = Store(tmp_path / "empty", published=[tmp_path / "results"])
    assert memory.remembered(elsewhere, entry) == {"fair_femnist": ["0" * 16], **known}


def test_a_narrowed_network_is_named_in_the_note(store):
    import numpy as np
    import torch
    from torch import nn

    from fedlib.figures.save import note

    data = fedlib.ClientData(torch.zeros(2, 3), torch.zeros(2, dtype=torch.long), [np.arange(2)])
    task = fedlib.Task("own", lambda: nn.Linear(3, 2), data, data, preset="paper", rounds=1)
    settings = {"rounds": 1, "clients_per_round": 1}
    assert note([store.run(task, "fedavg", **settings)]) == ""
    task.options = {"width": 0.125}
    text = note([store.run(task, "fedavg", **settings)])
    assert text == "0.125 of the network's width"
