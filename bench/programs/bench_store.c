/*
 * Rates of a folder, measured with the code that reads and writes states on disk: of reads alone, of writes alone, and
 * of both at the same time with equal numbers of bytes.
 *
 *     build/bench/bench_store [--small-pages] FOLDER [BYTES [BLOCK_BYTES [DEPTH]]]
 *
 * With ZR_STORE=threads, io_uring is not used. With --small-pages the memory has pages of 4 kB, as in other programs.
 * zr's own memory has huge pages where the system provides them, since transfers from and to fewer pages cost less.
 *
 * Prints one JSON line: rates in bytes per second, and the way in which transfers were made.
 */
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static long long number(int argc, char **argv, int at, long long otherwise)
{
    return argc > at ? atoll(argv[at]) : otherwise;
}

int main(int argc, char **argv)
{
    const bool small = argc > 1 && strcmp(argv[1], "--small-pages") == 0;
    argc -= small;
    argv += small;
    if (argc < 2 || (small && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0)) {
        fprintf(stderr, "usage: bench_store [--small-pages] FOLDER [BYTES [BLOCK_BYTES [DEPTH]]]\n");
        return 2;
    }
    zr__store_rates rates;
    if (zr__store_measure(argv[1], number(argc, argv, 2, 1 << 30), number(argc, argv, 3, 1 << 20),
                          (int)number(argc, argv, 4, 8), &rates) != ZR_OK) {
        fprintf(stderr, "bench_store: %s\n", zr_error_message());
        return 1;
    }
    printf("{\"read\": %.0f, \"write\": %.0f, \"mixed\": %.0f, \"transfers\": \"%s\", \"direct\": %s}\n", rates.read,
           rates.write, rates.mixed, rates.transfers, rates.direct ? "true" : "false");
    return 0;
}
