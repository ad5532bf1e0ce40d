"""Figures and tables of Delta-SGD."""

from __future__ import annotations

from fedlib.reproduction.delta_sgd import client_optimizers, step_size_paths
from fedlib.reproduction.delta_sgd.runs import IMAGES, RESNETS, TEXTS, THREE, TUNED, TWO
from fedlib.reproduction.entry import Entry
from fedlib.reproduction.printed import printed_entry
from fedlib.reproduction.theory import partitions

_PARTITIONS = {"": "06_partitions"}


def _by(notebook: str, *tasks: str) -> dict[str, str]:
    return dict.fromkeys(tasks, notebook)


_IMAGES, _TEXT, _ABLATION = (
    *("26_autotuned_images", "27_autotuned_text"),
    "39_delta_sgd_ablation",
)

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "delta_sgd/figure_1",
        "Test accuracy over rounds of eight client optimizers whose step sizes were tuned for the "
        "first panel's task (Delta-SGD, Figure 1). The text does not print the panels' alpha. "
        "Marks at the right edge: the accuracy that Table 1 prints.",
        _by(_IMAGES, *(task for task, _ in client_optimizers.FIGURE_1)),
        client_optimizers.delta_sgd_figure_1,
    ),
    Entry(
        "delta_sgd/figure_2",
        "Final test accuracy over the Dirichlet concentration (Delta-SGD, Figure 2): above as "
        "Table 1 prints it, below ours.",
        _by(_IMAGES, "cifar10_resnet18", "fashion_mnist", "cifar100_resnet50"),
        client_optimizers.delta_sgd_figure_2,
    ),
    Entry(
        "delta_sgd/figure_3",
        "Final test accuracy when the model or the data set changes (Delta-SGD, Figure 3): above "
        "as Table 1 prints it, below ours.",
        _by(_IMAGES, *IMAGES),
        client_optimizers.delta_sgd_figure_3,
    ),
    Entry(
        "delta_sgd/figure_4",
        "Final test accuracy of Delta-SGD over its delta (Delta-SGD, Figure 4). Marks: the "
        "accuracy that Table 1 prints for delta = 0.1; the others are not legible.",
        _by(_ABLATION, *RESNETS),
        client_optimizers.delta_sgd_figure_4,
    ),
    Entry(
        "delta_sgd/figure_5",
        "Test accuracy of Delta-SGD over rounds with one, two and three local epochs (Delta-SGD, "
        "Figure 5).",
        _by(_ABLATION, "cifar100_resnet50"),
        client_optimizers.delta_sgd_figure_5,
    ),
    Entry(
        "delta_sgd/figure_6",
        "Test accuracy over rounds, mean and standard deviation over seeds (Delta-SGD, Figure 6). "
        "Marks at the right edge: the accuracy that Table 1 prints.",
        _by(_ABLATION, *THREE),
        client_optimizers.delta_sgd_figure_6,
    ),
    Entry(
        "delta_sgd/figure_7",
        "The two conditions of Delta-SGD's step size and the step size (Delta-SGD, Figure 7), "
        "for softmax regression: a hundred steps on full gradients, and a federated client's "
        "rounds of ten steps on batches of twenty. The text does not name the paper's task.",
        {"": "05_auto_tuned_clients"},
        make=lambda _: step_size_paths.delta_sgd_figure_7(),
    ),
    Entry(
        "delta_sgd/figure_8",
        "Class distributions of 100 clients of 500 examples (Delta-SGD, Figure 8), for labels "
        "with CIFAR-10's structure: ten classes of 5,000.",
        _PARTITIONS,
        make=lambda _: partitions.delta_sgd_figure_8(),
    ),
    Entry(
        "delta_sgd/table_1",
        "Final test accuracy in percent, with step sizes tuned for CIFAR-10, ResNet-18 and alpha "
        "0.1 only (Delta-SGD, Table 1). Many printed cells are damaged in the text; see unclear.",
        _by(_IMAGES, *IMAGES),
        printed_entry("delta_sgd", "Table 1", "").draw,
    ),
    Entry(
        "delta_sgd/table_2a",
        "Final test accuracy in percent on text, with the step sizes tuned for CIFAR-10 "
        "(Delta-SGD, Table 2a).",
        _by(_TEXT, *TEXTS),
        printed_entry("delta_sgd", "Table 2a", "").draw,
    ),
    Entry(
        "delta_sgd/table_2b",
        "Final test accuracy in percent with FedProx' loss, alpha 0.01 (Delta-SGD, Table 2b). Its "
        "mu is not printed; 0.01 is that of the authors' commands.",
        _by(_ABLATION, *TWO),
        printed_entry("delta_sgd", "Table 2b", "").draw,
    ),
    Entry(
        "delta_sgd/table_3",
        "Final test accuracy in percent with clients of different sizes, alpha 0.1 (Delta-SGD, "
        "Table 3). The printed row of Delta-SGD is absent from the text.",
        _by(_ABLATION, *TWO),
        printed_entry("delta_sgd", "Table 3", "").draw,
    ),
    Entry(
        "delta_sgd/table_4",
        "Final test accuracy in percent with FedAdam as the server, alpha 0.1 (Delta-SGD, "
        "Table 4).",
        _by(_ABLATION, *IMAGES[:2], *RESNETS[:2]),
        printed_entry("delta_sgd", "Table 4", "").draw,
    ),
    Entry(
        "delta_sgd/table_5",
        "Final test accuracy in percent with MOON's loss, alpha 0.1 (Delta-SGD, Table 5).",
        _by(_ABLATION, TUNED),
        printed_entry("delta_sgd", "Table 5", "").draw,
    ),
    Entry(
        "delta_sgd/table_6",
        "Final test accuracy in percent with FedProx' loss on all tasks, alpha 0.01 (Delta-SGD, "
        "Table 6).",
        _by(_ABLATION, *IMAGES),
        printed_entry("delta_sgd", "Table 6", "").draw,
    ),
    Entry(
        "delta_sgd/table_7",
        "Final test accuracy in percent, mean and standard deviation over seeds, alpha 0.1 "
        "(Delta-SGD, Table 7). The printed numbers are absent from the paper's text: these are "
        "ours alone.",
        _by(_ABLATION, *THREE),
        client_optimizers.delta_sgd_table_7,
    ),
)
