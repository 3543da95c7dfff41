#!/usr/bin/env bash
# Pack the llama.cpp source that llama-cpp-python vendors into one small archive (about 6 MB), so
# that a CUDA machine without a network can build the very library the bindings were written for.
#   pack_source.sh OUT.tar.xz [VERSION]
set -euo pipefail
out=$(realpath -m "$1"); version=${2:-0.3.36}; tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python=${PYTHON:-python3}
"$python" -m pip download -q --no-deps --no-binary :all: -d "$tmp" "llama-cpp-python==$version"
tar xzf "$tmp"/llama_cpp_python-*.tar.gz -C "$tmp"
cd "$tmp"/llama_cpp_python-*/vendor/llama.cpp
# the vocabulary is what synth_gguf.py copies into its files
# backends of other devices and the web page are left out
without=(tools/ui/{src,tests,static,package-lock.json})
without+=(ggml/src/ggml-{opencl,vulkan,sycl,hexagon,metal,et,webgpu,openvino,cann,virtgpu})
tar cJf "$out" "${without[@]/#/--exclude=}" app cmake common conversion convert_hf_to_gguf.py examples ggml gguf-py include \
    licenses models/ggml-vocab-qwen35.gguf scripts src tools vendor CMakeLists.txt LICENSE
ls -la "$out"
