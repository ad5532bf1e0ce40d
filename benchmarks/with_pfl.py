"""A round of pfl-research (``pip install pfl``), by its public interface.

The networks are those of the other ways, and the clients' tensors are made once. pfl goes through a
client's examples in their order, so unlike the other ways it does not shuffle them.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn

from benchmarks.workloads import RATE, Workload


class _WithLoss(nn.Module):
    """A network with the two functions that pfl asks of it."""

    def __init__(self, load: Workload, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.per_example = load.loss

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return self.per_example(self.network(x).unsqueeze(0), y.unsqueeze(0)).mean()

    def metrics(self, x: Tensor, y: Tensor) -> dict[str, Weighted]:
        return {"examples": Weighted(len(x), 1)}


def round_of(
    load: Workload,
    server: nn.Module,
    clients: Sequence[tuple[Tensor, Tensor]],
    device: torch.device,
) -> Callable[[], object]:
    """A function that trains ``server`` for a round of FedAvg on all ``clients``."""
    os.environ["PFL_PYTORCH_DEVICE"] = str(device)  # otherwise pfl takes a GPU if there is one
    users = [PyTorchTensorDataset((x.to(device), y.to(device))) for x, y in clients]
    sampler = get_user_sampler("minimize_reuse", list(range(len(users))))
    data = FederatedDataset(users.__getitem__, sampler)
    backend = SimulatedBackend(training_data=data, val_data=data)
    network = _WithLoss(load, server)
    central = torch.optim.SGD(network.parameters(), lr=1.0)
    model = PyTorchModel(network, torch.optim.SGD, central)
    local = NNTrainHyperParams(
        local_num_epochs=1, local_learning_rate=RATE, local_batch_size=load.batch
    )
    algorithm = FederatedAveraging()
    rounds = itertools.count(1)

    def step() -> None:
        # Another run continues the last one. Only round 0 evaluates, which warms up.
        params = NNAlgorithmParams(
            central_num_iterations=next(rounds),
            evaluation_frequency=10**9,
            train_cohort_size=len(users),
            val_cohort_size=0,
        )
        algorithm.run(params, backend, model, local, send_metrics_to_platform=False)

    return step
