#!/usr/bin/env bash
# Build libllama with CUDA, and llama-server as the peer to measure against, from an archive of
# pack_source.sh. Four minutes on 16 cores; nothing is done when both are there.
#   build.sh SOURCE.tar.xz BUILD_DIR [ARCH=90]
# Then: OUTRIDER_LIBLLAMA=BUILD_DIR/bin/libllama.so
set -euo pipefail
src=$(realpath "$1"); build=$(realpath -m "$2"); arch=${3:-90}
[ -x "$build/bin/llama-server" ] && [ -e "$build/.linked" ] && { echo "built already"; exit 0; }
cuda=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
if [ ! -e "$cuda/lib64/libcublas.so" ]; then  # a toolkit without cuBLAS: use a Python package's
  lib=$(dirname "$(find /opt /usr -name 'libcublas.so.1?' 2>/dev/null | head -1)")
  mkdir -p "$cuda/lib64"
  for n in libcublas libcublasLt; do
    ln -sf "$(ls "$lib/$n".so.1? | head -1)" "$cuda/lib64/$n.so"
  done
  for h in "$(dirname "$lib")"/include/cublas*.h; do
    [ -e "$cuda/include/${h##*/}" ] || ln -s "$h" "$cuda/include/"
  done
fi
[ -d "$build/src/src" ] || { mkdir -p "$build/src"; tar xJf "$src" -C "$build/src"; }

configure() {
  # the version that is built in is no commit of the checkout around it
  GIT_CEILING_DIRECTORIES="$build" cmake -G Ninja -S "$build/src" -B "$build" -DCMAKE_BUILD_TYPE=Release -DGGML_CUDA=ON \
    -DCMAKE_CUDA_ARCHITECTURES="$arch" -DGGML_NATIVE=OFF -DLLAMA_BUILD_TESTS=OFF \
    -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_CURL=OFF \
    -DCUDAToolkit_ROOT="$cuda" "$@" >"$build/configure.log" 2>&1 ||
    { tail -20 "$build/configure.log"; exit 1; }
  ninja -C "$build" llama-server >"$build/build.log" 2>&1 ||
    { tail -30 "$build/build.log"; exit 1; }
}

configure
# Some toolchains put a static libstdc++ into every library. Its symbols stay visible, so that in a
# process that has loaded the system's libstdc++ as well (Python with NumPy has) half of an object's
# code comes from one copy and half from the other: unique symbols such as the locale facets' ids
# bind to the first copy in the process, the facet tables to the second, and the first regular
# expression or stream (loading a model uses both) goes wrong. Naming the shared library ahead of
# the toolchain's own -lstdc++ leaves one copy; only the link steps run again.
if ! readelf -d "$build/bin/libllama.so" | grep -q 'NEEDED.*libstdc++'; then
  shared=$(ldconfig -p | awk '$1 == "libstdc++.so.6" && /x86-64/ { print $NF; exit }')
  echo "libllama.so holds a static libstdc++: linking again with ${shared:-nothing found}"
  if [ -n "$shared" ]; then
    configure -DCMAKE_CXX_STANDARD_LIBRARIES="$shared" -DCMAKE_CUDA_STANDARD_LIBRARIES="$shared"
  fi
fi
touch "$build/.linked"
readelf -d "$build/bin/libllama.so" | grep NEEDED
