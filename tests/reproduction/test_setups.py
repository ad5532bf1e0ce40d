"""The sizes of what is prepared here, beside the printed ones; other setups are in the gallery."""

import numpy as np

from fedlib import datasets
from fedlib.reproduction import draw
from fedlib.results import Store


def test_fedopt_table_2_puts_prepared_sizes_beside_the_printed_ones(tmp_path):
    store = Store(tmp_path / "data" / "runs", published=[])
    y = {"train_y": np.arange(300) % 10, "test_y": np.arange(100) % 10}
    clients = {"train_client": np.arange(300) % 7, "test_client": np.arange(100) % 5}
    for name, shape, more in (("cifar10", (32, 32, 3), {}), ("femnist", (28, 28), clients)):
        x = {f"{k[:-1]}x": np.full((len(own), *shape), 255, np.uint8) for k, own in y.items()}
        np.savez(tmp_path / f"{name}.npz", **x, **y, **more)
        datasets.import_file(name, tmp_path / f"{name}.npz", tmp_path / "data")
    drawn = draw.draw("fedopt/table_2", store=store)
    frame = drawn.data.set_index(["data set", "sizes"])
    assert frame.loc[("CIFAR-10", "cifar10")].tolist() == [3, 300, 1, 100]
    assert frame.loc[("EMNIST-62", "femnist")].tolist() == [7, 300, 5, 100]
    assert frame.loc["Shakespeare"].index.tolist() == ["printed"]  # nothing is prepared
    assert frame.loc[("EMNIST-62", "printed"), "train examples"] == 671585
    assert len(frame) == 7 and "671585" in (text := drawn.path.read_text()) and "femnist" in text
