/* Traces of GPT-2 computed by PyTorch in float64: the project's own (tests/golden, written by its make.py), and a
 * larger one where it is installed. */
#ifndef GOLDEN_H
#define GOLDEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <zr/models.h>

#include "zr/models.h"

enum { GOLDEN_STEPS = 10, GOLDEN_BATCH = 4, GOLDEN_MOST_SEQ = 64 };

typedef struct golden_expected {
    const char *dir;
    zr_gpt2_config config;
    double loss[GOLDEN_STEPS], norm[GOLDEN_STEPS];
} golden_expected;

enum { GOLDEN_DIR_BYTES = 4096 };

/* Return the folder of one of the project's own traces. */
static inline const char *golden_own_dir(const char *name, char dir[GOLDEN_DIR_BYTES])
{
    const char *source = getenv("ZR_SOURCE");
    snprintf(dir, GOLDEN_DIR_BYTES, "%s/tests/golden/%s", source ? source : ".", name);
    return dir;
}

/* Return the folder of a larger trace, or print a message and return NULL where it is not installed. */
static inline const char *golden_larger_dir(const char *name, char dir[GOLDEN_DIR_BYTES])
{
    const char *shared = getenv("ZR_SHARED");
    snprintf(dir, GOLDEN_DIR_BYTES, "%s/golden/%s", shared ? shared : "../shared", name);
    if (access(dir, F_OK) == 0) return dir;
    print_message("# no larger trace in %s (set ZR_SHARED): the small ones of tests/golden alone\n", dir);
    return NULL;
}

static inline const char *golden_own(void)
{
    static char dir[GOLDEN_DIR_BYTES];
    return golden_own_dir("gpt2-tiny", dir);
}

static inline const char *golden_larger(void)
{
    static char dir[GOLDEN_DIR_BYTES];
    return golden_larger_dir("gpt2-tiny", dir);
}

static inline int64_t golden_size(const json_t *expected, const char *key)
{
    return json_integer_value(json_object_get(expected, key));
}

static inline json_t *golden_read_json(const char *dir, const char *name)
{
    char path[5000];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    json_t *expected = json_load_file(path, 0, NULL);
    if (!expected) fail_msg("no %s: set ZR_SOURCE to the source tree", path);
    return expected;
}

static inline json_t *golden_read_expected(const char *dir)
{
    return golden_read_json(dir, "expected.json");
}

/* Read the losses and norms of a trace's steps. Return T, the number of tokens of a row. */
static inline int64_t golden_numbers(const char *dir, double loss[GOLDEN_STEPS], double norm[GOLDEN_STEPS])
{
    json_t *expected = golden_read_expected(dir);
    const int64_t T = golden_size(expected, "seq_length");
    assert_int_equal(golden_size(expected, "batch"), GOLDEN_BATCH);
    assert_in_range(T, 1, GOLDEN_MOST_SEQ);
    for (size_t i = 0; i < GOLDEN_STEPS; i++) {
        loss[i] = json_real_value(json_array_get(json_object_get(expected, "losses"), i));
        norm[i] = json_real_value(json_array_get(json_object_get(expected, "grad_norms"), i));
        assert_true(loss[i] > 0 && norm[i] > 0);
    }
    json_decref(expected);
    return T;
}

static inline golden_expected golden_load(const char *dir)
{
    json_t *expected = golden_read_expected(dir);
    golden_expected e = {.dir = dir,
                         .config = {.n_layer = golden_size(expected, "n_layer"),
                                    .n_head = golden_size(expected, "n_head"),
                                    .n_embd = golden_size(expected, "n_embd"),
                                    .n_positions = golden_size(expected, "seq_length"),
                                    .vocab_size = golden_size(expected, "vocab_size"),
                                    .layer_norm_epsilon = 1e-5,
                                    .initializer_range = 0.02}};
    json_decref(expected);
    golden_numbers(dir, e.loss, e.norm);
    return e;
}

#endif
