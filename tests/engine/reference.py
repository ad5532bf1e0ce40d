"""Rows against one client after the other, and that against a loop that shares no code with it."""

import torch

import fedlib


def assert_rows_agree(task, algorithm="fedavg", **settings):
    """Rows train as one client after the other does; the trained parameters."""
    settings = {"dtype": "float64", **settings}
    by_rows, plain = (
        fedlib.run(task, algorithm, backend=backend, **settings).params
        for backend in ("vectorized", "plain")
    )
    torch.testing.assert_close(by_rows, plain, rtol=1e-10, atol=1e-10)
    return by_rows


def fedavg(task, initial, rounds, lr, local_steps=1, dtype=torch.float64):
    """FedAvg as anybody writes it: ``torch.optim.SGD`` on whole clients, all of them each round.

    Returns the state dict after the last round, from the ``initial`` one.
    """
    model, data = task.new_model().to(dtype), task.train
    model.load_state_dict(initial)
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    for _ in range(rounds):
        start = {name: p.detach().clone() for name, p in trained.items()}
        total = {name: torch.zeros_like(p) for name, p in start.items()}
        for client, size in enumerate(data.sizes):
            with torch.no_grad():
                for name, p in trained.items():
                    p.copy_(start[name])
            optimizer = torch.optim.SGD(trained.values(), lr)
            first = data.starts[client]
            own = data.index[first : first + size]
            for _ in range(local_steps):
                optimizer.zero_grad()
                x = data.x[own].clone()
                outputs = model(x.to(dtype) if x.is_floating_point() else x)
                torch.nn.functional.cross_entropy(outputs, data.y[own]).backward()
                optimizer.step()
            for name, p in trained.items():
                total[name] += size / data.sizes.sum() * (p.detach() - start[name])
        with torch.no_grad():
            for name, p in trained.items():
                p.copy_(start[name] + total[name])
    return model.state_dict()
