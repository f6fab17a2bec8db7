"""The command lines of encoders that another engine computes."""

from tests.samples import Samples

SAMPLES = Samples(
    without_extra={
        "openvino": ["export", "openvino:model:bert", "--on", "corpus.jsonl", "-o", "out"],
        "onnx": ["export", "onnx:model:bert", "--on", "corpus.jsonl", "-o", "out"],
    },
)
