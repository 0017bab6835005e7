/* Runs a fuzz target on the files named on the command line: the main function in builds without libFuzzer, and for a
 * debugger after a crash. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { MOST_BYTES = 1 << 20 };

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        uint8_t *bytes = malloc(MOST_BYTES);
        if (!file || !bytes) {
            fprintf(stderr, "cannot read %s\n", argv[i]);
            return 1;
        }
        size_t n = fread(bytes, 1, MOST_BYTES, file);
        fclose(file);
        /* an allocation of exactly the input's size, so that a sanitizer detects a read past its end */
        uint8_t *input = realloc(bytes, n ? n : 1);
        LLVMFuzzerTestOneInput(input, n);
        free(input);
    }
    printf("%d files\n", argc - 1);
    return 0;
}
