"""Does it help to weigh fragments? Weights learned on one file of labelled texts, measured on another.

    python examples/fragment_weights.py minilm banking77/train.jsonl banking77/test.jsonl 16 32 64

Prints, per fragment size, the accuracy of 3 and of 10 neighbours for cosine, for sfs, and for sfs with learned weights
(SFS leaves open whether fragments should weigh alike). The weights are non-negative and sum to 1; the loss is that of a
softmax over all other texts, of which those of the same label count as right.
"""

import sys

import numpy as np
import torch
from torch import Tensor

import retrokit
from retrokit.data.labelled import read_split

STEPS, ANCHORS, OTHERS, LEARNING_RATE = 300, 192, 1500, 0.05
NEIGHBOURS = (3, 10)


def fragments(embeddings: np.ndarray, size: int) -> Tensor:
    """``[n, d]`` as fragments of unit length, ``[n, N_f, size]``."""
    parts = torch.as_tensor(embeddings).unflatten(-1, (-1, size))
    return parts / parts.norm(dim=-1, keepdim=True).clamp_min(1e-12)


def accuracy(weights: Tensor, train: Tensor, labels: np.ndarray, test: Tensor, expected: np.ndarray, k: int) -> float:
    """Of the majority label of the k neighbours by the weighted mean of the fragments' cosines."""
    scale = weights.sqrt()[None, :, None]
    scores = (test * scale).flatten(1) @ (train * scale).flatten(1).T
    votes = labels[scores.topk(k, dim=1).indices.numpy()]
    return float(np.mean([np.bincount(row).argmax() for row in votes] == expected))


def learned_weights(train: Tensor, labels: np.ndarray) -> Tensor:
    """Weights ``[N_f]`` of fragments ``[n, N_f, size]``."""
    logits = torch.zeros(train.shape[1], requires_grad=True)
    log_scale = torch.tensor(float(np.log(20)), requires_grad=True)
    optimizer = torch.optim.Adam([logits, log_scale], lr=LEARNING_RATE)
    generator, targets = torch.Generator().manual_seed(0), torch.as_tensor(labels)
    for _ in range(STEPS):
        rows = torch.randperm(len(train), generator=generator)[:ANCHORS]
        columns = torch.randperm(len(train), generator=generator)[:OTHERS]
        cosines = torch.einsum("ifs,jfs->ijf", train[rows], train[columns])
        scores = cosines @ torch.softmax(logits, 0) * log_scale.exp()
        itself = rows[:, None] == columns[None]
        same = (targets[rows][:, None] == targets[columns][None]) & ~itself
        every = scores.masked_fill(itself, -torch.inf).logsumexp(1)
        right = scores.masked_fill(~same, -torch.inf).logsumexp(1)
        loss = (every - right)[same.any(1)].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return torch.softmax(logits, 0).detach()


def main(spec: str, train_file: str, test_file: str, *sizes: str) -> None:
    """Print a row per fragment size."""
    data = read_split(train_file, test_file)
    embeddings = retrokit.encoder(spec).embed(data.texts, "document")
    labels = np.array(data.labels)
    train, test = data.train, data.test
    print(f"| size | {' | '.join(f'cosine, k = {k} | sfs | weighted' for k in NEIGHBOURS)} | smallest and largest |")
    for size in map(int, sizes):
        cells = []
        whole, parts = fragments(embeddings, embeddings.shape[1]), fragments(embeddings, size)
        count = parts.shape[1]
        learned = learned_weights(parts[train], labels[train])
        for k in NEIGHBOURS:
            for rows, weights in ((whole, torch.ones(1)), (parts, torch.full((count,), 1 / count)), (parts, learned)):
                cells.append(accuracy(weights, rows[train], labels[train], rows[test], labels[test], k))
        shown = " | ".join(f"{cell:.4f}" for cell in cells)
        print(
            f"| {size} | {shown} | {learned.min() * count:.2f} and {learned.max() * count:.2f} of the mean |",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
