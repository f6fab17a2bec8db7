"""OpenVINO: graphs that Intel's runtime compiles for the CPU at hand; 8 bits by NNCF, calibrated by texts."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import openvino

from retrokit.extensions.graphs.encoder import OUTPUT, Compute, Inputs, Traced

PACKAGES = ("openvino", "nncf")
_FILE = "model.xml"


@cache
def _core() -> openvino.Core:
    """The only core of the process: of several, one leaves a freed signal stack behind, and Ctrl-C crashes."""
    return openvino.Core()


def write(traced: Traced, dtype: str, calibration: Sequence[Inputs], folder: Path) -> None:
    """See :mod:`retrokit.extensions.graphs.encoder`."""
    _core()
    graph = openvino.convert_model(traced, example_input=tuple(traced.example.values()))
    graph.reshape({index: [-1, -1] for index in range(len(traced.example))})
    for graph_input, name in zip(graph.inputs, traced.example, strict=True):
        graph_input.get_tensor().set_names({name})
    graph.outputs[0].get_tensor().set_names({OUTPUT})
    if dtype == "int8":
        import nncf

        texts = nncf.Dataset([dict(inputs) for inputs in calibration])
        graph = nncf.quantize(graph, texts, model_type=nncf.ModelType.TRANSFORMER, subset_size=len(calibration))
    openvino.save_model(graph, folder / _FILE, compress_to_fp16=False)


def read(folder: Path, threads: int) -> Compute:
    """See :mod:`retrokit.extensions.graphs.encoder`."""
    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    compiled = _core().compile_model(folder / _FILE, "CPU", settings)

    def compute(inputs: Inputs) -> np.ndarray:
        embeddings: np.ndarray = compiled(dict(inputs))[OUTPUT]
        return embeddings

    return compute
