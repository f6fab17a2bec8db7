# retrokit with the weights of minilm, on the CPU; on an NVIDIA GPU: docker build --build-arg TORCH=cu130 -t retrokit-ir .
#     docker run --rm -v "$PWD:/data" retrokit-ir eval minilm --on beir:task
ARG PYTHON=3.11
FROM python:${PYTHON}-slim
ARG TORCH=cpu
ARG EXTRAS=minilm,bm25,faiss
RUN python -m pip install --no-cache-dir torch --index-url "https://download.pytorch.org/whl/${TORCH}"
WORKDIR /src
COPY pyproject.toml MANIFEST.in LICENSE README.md CHANGELOG.md CITATION.cff ./
COPY retrokit retrokit
RUN python -m pip install --no-cache-dir ".[${EXTRAS}]"
WORKDIR /data
RUN retrokit --version
ENTRYPOINT ["retrokit"]
CMD ["--help"]
