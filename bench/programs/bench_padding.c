/*
 * Rows of sentence pairs: their number in an epoch, and the fraction of their tokens that is not padding.
 *
 *     build/bench/bench_padding TEXT TOKENIZER SEQ PREDICTIONS SAMPLES
 *
 * Prints one JSON object: {"rows", "samples", "filled"}.
 */
#include <zr.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    zr_pairs *pairs = NULL;
    zr_tokenizer *tokenizer = NULL;
    if (argc != 6) {
        fprintf(stderr, "bench_padding: wanted TEXT TOKENIZER SEQ PREDICTIONS SAMPLES\n");
        return 2;
    }
    zr_pairs_args args = {.path = argv[1], .tokenizer = argv[2], .short_seq_prob = 0.1};
    args.seq_length = atoll(argv[3]), args.predictions = atoll(argv[4]), args.samples = atoll(argv[5]);
    zr_status st = zr_tokenizer_open(argv[2], &tokenizer);
    if (st == ZR_OK) args.vocab_size = zr_tokenizer_vocab(tokenizer);
    if (st == ZR_OK) st = zr_pairs_open(&args, &pairs);
    if (st == ZR_OK) {
        const zr_pairs_info info = zr_pairs_get_info(pairs);
        printf("{\"rows\":%lld, \"samples\":%lld, \"filled\":%.6f}\n", (long long)info.rows, (long long)info.samples,
               info.filled);
    } else {
        fprintf(stderr, "bench_padding: %s\n", zr_error_message());
    }
    zr_pairs_close(&pairs);
    zr_tokenizer_close(&tokenizer);
    return st == ZR_OK ? 0 : 1;
}
