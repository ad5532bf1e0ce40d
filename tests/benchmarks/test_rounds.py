"""The benchmark measures what it says; how fast anything is stays untested."""

from functools import partial

import pytest
import torch

from benchmarks import __main__
from benchmarks import rounds as bench
from fedlib.models import ResNet18GN


@pytest.mark.parametrize("name", list(bench.WORKLOADS))
def test_every_workload_times_every_way(name, monkeypatch):
    monkeypatch.setattr(bench, "BLOCK_SECONDS", 0.0)  # a round each
    result = bench.bench(name, repeats=1, clients=2, width=0.1 if name != "W1" else 1.0)
    ways = {"fedlib", "module", "plain", "tight", "floor", *bench.installed()}
    assert all(result[f"{way} s"] > 0 for way in ways)
    assert result["plain / fedlib"] == result["plain s"] / result["fedlib s"]


@pytest.mark.parametrize("width", [0.1, 1.0])
def test_the_plain_resnet_is_the_papers(width):
    ours, plain = ResNet18GN(10, width=width), bench.WORKLOADS["W3"].plain(width)
    values = iter(ours.parameters())
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter.copy_(next(values))
        x = torch.randn(2, 3, 24, 24, generator=torch.Generator().manual_seed(0))
        assert torch.allclose(ours(x), plain(x), atol=1e-5)
    assert next(values, None) is None


def test_the_ways_train_alike_from_the_same_start():
    """One full batch per client: every way takes the same step and must end at the same point."""
    load = bench.WORKLOADS["W1"]
    task = bench._task(load, lambda: load.model(1.0), 3, 3)
    one_batch = bench.Workload(**{**load.__dict__, "batch": load.examples})
    cpu = torch.device("cpu")
    ends = []
    for way in (bench._plain, bench._tight, partial(bench._tight, together=True)):
        torch.manual_seed(0)
        model = load.plain(1.0)
        way(one_batch, model, task, cpu)()
        ends.append(model)
    for other in ends[1:]:
        for a, b in zip(ends[0].parameters(), other.parameters(), strict=True):
            assert torch.allclose(a, b, atol=1e-6)


@pytest.mark.parametrize(
    "words, status", [(["W1", "W1", "--repeats", "1", "--clients", "2"], 0), (["W9"], 2)]
)
def test_the_command_prints_a_table_or_one_line(words, status, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["benchmarks", *words, "--no-rivals"])
    assert __main__.main() == status
    printed = capsys.readouterr()
    assert len((printed.err if status else printed.out).splitlines()) == (1 if status else 3)
