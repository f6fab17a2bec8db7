"""Average the weights of models of one architecture (model soup).

python examples/merge.py runs/soup runs/seed0 runs/seed1 runs/seed2
"""

import sys

import torch
from sentence_transformers import SentenceTransformer

output, *folders = sys.argv[1:]
models = [SentenceTransformer(folder, device="cpu", trust_remote_code=True) for folder in folders]
all_weights = [model.state_dict() for model in models]
for name, average in all_weights[0].items():
    if average.is_floating_point():
        average.copy_(torch.stack([weights[name] for weights in all_weights]).mean(0, dtype=torch.float32))
models[0].save(output)
