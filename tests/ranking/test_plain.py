"""F3 and F4 as COMP writes them, against the formulas computed for one unpadded map at a time."""

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import conv2d, gelu, layer_norm

from retrokit.core.errors import UsageError
from retrokit.ranking.reranking import verifiers

SIZES = [(5, 7), (3, 4), (8, 2), (1, 1)]


def made(spec: str) -> torch.nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return verifiers.create(spec).eval()


def mlp(part: torch.nn.Module, vector: torch.Tensor) -> torch.Tensor:
    first, last = part[0], part[-1]
    return last.weight @ gelu(first.weight @ vector + first.bias) + last.bias


def cnn_by_hand(network: torch.nn.Module, seen: torch.Tensor) -> torch.Tensor:
    features = seen[None, None]
    for layer in network.convolutions:
        features = conv2d(features, layer.weight, layer.bias, padding=layer.padding).clamp(min=0)
    return mlp(network.head, features[0].flatten(1).mean(dim=1))


def transformer_by_hand(network: torch.nn.Module, seen: torch.Tensor) -> torch.Tensor:
    size, dim = network.patch, len(network.cls)
    rates = torch.exp(torch.arange(0, dim // 2, 2) * (-math.log(1000.0) / (dim // 2)))
    tokens = [network.cls]
    for row in range(0, seen.shape[0], size):
        for column in range(0, seen.shape[1], size):
            cut = seen[row : row + size, column : column + size]
            patch = torch.zeros(size, size)
            patch[: cut.shape[0], : cut.shape[1]] = cut
            place = [f(at // size * rates) for at in (row, column) for f in (torch.sin, torch.cos)]
            tokens.append(network.embed.weight @ patch.flatten() + network.embed.bias + torch.cat(place))
    x = torch.stack(tokens)
    for layer in network.layers:
        normed = layer_norm(x, (dim,), layer.attention_norm.weight, layer.attention_norm.bias)
        q, k, v = (normed @ layer.inputs.weight.T + layer.inputs.bias).split(dim, dim=1)
        heads = []
        for part in torch.arange(dim).chunk(layer.heads):
            weights = (q[:, part] @ k[:, part].T / math.sqrt(len(part))).softmax(dim=1)
            heads.append(weights @ v[:, part])
        x = x + torch.cat(heads, dim=1) @ layer.output.weight.T + layer.output.bias
        normed = layer_norm(x, (dim,), layer.norm.weight, layer.norm.bias)
        up, down = layer.feed_forward[0], layer.feed_forward[3]
        x = x + gelu(normed @ up.weight.T + up.bias) @ down.weight.T + down.bias
    return mlp(network.head, layer_norm(x[0], (dim,), network.norm.weight, network.norm.bias))


@pytest.mark.parametrize(
    ("spec", "by_hand"),
    [
        ("cnn:plain", cnn_by_hand),
        ("cnn:plain,layers=3,kernel=5", cnn_by_hand),
        ("transformer:plain,patch=2,dim=16", transformer_by_hand),
        ("transformer:plain,dim=32,heads=2", transformer_by_hand),
    ],
)
def test_plain_networks_are_the_formulas(spec, by_hand):
    network = made(spec)
    random = np.random.default_rng(0)
    widest = np.max(SIZES, axis=0)
    maps = torch.from_numpy(random.uniform(-1, 1, (len(SIZES), *widest)).astype(np.float32))
    rows, columns = (torch.arange(widest[i])[None] < torch.tensor([size[i] for size in SIZES])[:, None] for i in (0, 1))
    with torch.no_grad():
        found = network(maps, rows, columns)
        for score, cells, (a, b) in zip(found, maps, SIZES, strict=True):
            expected = by_hand(network, cells[:a, :b].clip(0, 1) * 2 - 1)
            torch.testing.assert_close(score[None], expected, rtol=1e-4, atol=1e-5)


def test_ours_and_plain_stand_in_one_grammar():
    assert str(verifiers.parse("cnn")) == "cnn"
    assert type(made("cnn")).__name__ == "MapCNN"
    assert type(made("transformer:patch=2")).__name__ == "MapTransformer"
    assert made("transformer").keep == 8
    with pytest.raises(UsageError, match="attends to all patches: leave out keep=4"):
        made("transformer:plain,keep=4")
    with pytest.raises(UsageError, match="kernel=4: kernel size must be odd"):
        made("cnn:plain,kernel=4")
