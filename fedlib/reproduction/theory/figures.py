"""The theory notebooks' own figures."""

from __future__ import annotations

from fedlib.reproduction.entry import Entry
from fedlib.reproduction.theory import (
    adaptivity,
    corollaries,
    drift,
    guarantee,
    mimicking,
    partitions,
    stationarity,
)

_PARTITIONS = {"": "06_partitions"}

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "theory/client_drift",
        "Two clients in the plane: local steps of the first rounds, and the server's path.",
        {"quadratic": "01_client_drift"},
    ),
    Entry(
        "theory/drift_size",
        "How far clients drift in a round, and how far the fixed points of FedAvg and FedProx are "
        "from the optimum.",
        {"quadratic": "01_client_drift"},
    ),
    Entry(
        "theory/drift_corrected",
        "Squared gradient norm of the mean objective over rounds of ten local steps, two "
        "quadratic clients: FedAvg and FedProx converge to points beside the optimum.",
        {"client_drift": "01_client_drift"},
        drift.drift_corrected,
    ),
    Entry(
        "theory/mimicking",
        "Squared gradient norm of the mean objective over rounds and over the model sizes "
        "sent by a client and to it, per base optimizer. FedAvg has the base on the server.",
        {"mimicking": "04_mimicking_centralized"},
        mimicking.mimicking,
    ),
    Entry(
        "theory/hessian_similarity",
        "Rounds until the squared gradient norm is a 10,000th of its first value, best step "
        "size, over the clients' Hessian dissimilarity.",
        {"hessian_similarity": "04_mimicking_centralized"},
        mimicking.hessian_similarity,
    ),
    Entry(
        "theory/mime_corollaries",
        "Mime's Corollary II: rounds until the squared gradient norm has fallen by a factor, on an "
        "objective with a flat direction. Corollary III: squared gradient norm with Adam as base, "
        "S of 64 clients a round.",
        {task: "04_mimicking_centralized" for task in (corollaries.FLAT, corollaries.COHORTS)},
        corollaries.mime_corollaries,
    ),
    Entry(
        "theory/server_adaptivity",
        "Mean loss of servers with their best rate, on a problem whose features are of very "
        "different frequency and on one where all are equally common.",
        {"sparse_features": "02_server_adaptivity", "dense_features": "02_server_adaptivity"},
        adaptivity.server_adaptivity,
    ),
    Entry(
        "theory/degree_of_adaptivity",
        "FedAdam over τ, and what Adam and Yogi remember of pseudo-gradients.",
        {"quadratic": "02_server_adaptivity"},
    ),
    Entry(
        "theory/fedopt_rate",
        "Squared gradient norm over clients x local steps x rounds, at the step sizes of "
        "FedOpt's Corollaries 1 and 2.",
        {"noisy_quadratics": "02_server_adaptivity"},
        adaptivity.fedopt_rate,
    ),
    Entry(
        "theory/auto_tuned_clients",
        "SGD, Delta-SGD and SPS over the scale of the losses and a floor below them, and the "
        "Lyapunov function of Delta-SGD's equation 5.",
        {"clients": "05_auto_tuned_clients"},
    ),
    Entry(
        "theory/delta_sgd_rate",
        "Mean squared gradient norm over the rounds of Delta-SGD on noisy problems that fulfil the "
        "assumptions of its Theorem 1: with the theorem's gamma, and with the default.",
        {"": "05_auto_tuned_clients"},
        make=lambda _: stationarity.delta_sgd_rate(),
    ),
    Entry(
        "theory/accumulated_updates",
        "Adam on what N steps of SGD accumulate (N-AccAdam), over rounds and over gradients.",
        {"pooled": "03_fairness_and_certainty"},
    ),
    Entry(
        "theory/fairness_and_certainty",
        "Fixed points of clients with unequal steps, AdaFedAdam's certainty, and mean and "
        "spread of the clients' errors over its α.",
        {"synthetic": "03_fairness_and_certainty"},
    ),
    Entry(
        "theory/certainty_and_rate",
        "AdaFedAdam on four quadratic clients that take N small local steps, without momentum and "
        "fairness. Left: the mean of the squared gradient norm over T rounds, and the bound of "
        "AdaFedAdam's Theorem 2. Right: their ratio after all rounds, over the certainty, at the "
        "largest server rate that the theorem allows and at that rate divided by C.",
        {"": "03_fairness_and_certainty"},
        make=lambda _: guarantee.certainty_and_rate(),
    ),
    Entry(
        "theory/label_heterogeneity",
        "Total variation between a client's labels and those of all, mean and quartiles over "
        "the clients, against the concentration of each partitioner.",
        _PARTITIONS,
        make=lambda _: partitions.label_heterogeneity(),
    ),
    Entry(
        "theory/from_scratch",
        "Test accuracy of eight methods on handwritten digits, 20 clients with label skew, and of "
        "FedAdam over Δ-SGD clients: lines from a loop in plain PyTorch, marks from fedlib. "
        "Learning rates are not tuned.",
        {"digits_from_scratch": "08_from_scratch"},
    ),
)
