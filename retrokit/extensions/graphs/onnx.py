"""ONNX Runtime: graphs in the ONNX format; 8 bits by its dynamic quantisation, which measures each batch as it comes
and needs no calibration."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic

from retrokit.extensions.graphs.encoder import OUTPUT, Compute, Inputs, Traced

PACKAGES = ("onnxruntime", "onnx")
_FILE = "model.onnx"
_OPSET = 17


def write(traced: Traced, dtype: str, calibration: Sequence[Inputs], folder: Path) -> None:
    """See :mod:`retrokit.extensions.graphs.encoder`."""
    target = folder / "fp32.onnx" if dtype == "int8" else folder / _FILE
    names = list(traced.example)
    torch.onnx.export(
        traced,
        tuple(traced.example.values()),
        str(target),
        input_names=names,
        output_names=[OUTPUT],
        dynamic_axes={name: {0: "texts", 1: "tokens"} for name in [*names, OUTPUT]},
        opset_version=_OPSET,
        dynamo=False,
    )
    if dtype == "int8":
        quantize_dynamic(target, folder / _FILE, per_channel=True, weight_type=QuantType.QInt8)
        for file in folder.glob("fp32.onnx*"):
            file.unlink()


def read(folder: Path, threads: int) -> Compute:
    """See :mod:`retrokit.extensions.graphs.encoder`."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(folder / _FILE, options, providers=["CPUExecutionProvider"])

    def compute(inputs: Inputs) -> np.ndarray:
        embeddings: np.ndarray = session.run([OUTPUT], dict(inputs))[0]
        return embeddings

    return compute
