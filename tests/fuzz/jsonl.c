/** Fuzz target: arbitrary bytes as a .jsonl file, encoded with the byte tokenizer. With bad lines skipped, every file
 * is accepted; with bad lines as errors, a file without bad lines is accepted and gives the same tokens. */
#include "support/fuzz_encode.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    result strict, lenient, parted;
    put_input(bytes, n);
    const zr_status st = encode(ZR__SHAPE_LINES, false, 0, 1, &strict);
    hold(st == ZR_OK || (st == ZR_ERR_DATA && strstr(zr_error_message(), file_name)), "a refusal names the file");
    hold(encode(ZR__SHAPE_LINES, true, 0, 1, &lenient) == ZR_OK, "what is left out is no error");
    hold((st == ZR_OK) == (lenient.did.found.skipped_lines == 0), "a line is bad or it is not");
    hold(st != ZR_OK || memcmp(&strict, &lenient, sizeof(strict)) == 0, "good files are the same");
    hold(encode(ZR__SHAPE_LINES, true, 8, 3, &parted) == ZR_OK && memcmp(&parted, &lenient, sizeof(parted)) == 0,
         "parts are the whole");
    const zr__found_texts *found = &lenient.did.found;
    hold(lenient.did.tokens <= (int64_t)n && lenient.put == lenient.did.tokens &&
             lenient.did.tokens == found->text_bytes + found->documents,
         "no token comes from nowhere");
    return 0;
}
