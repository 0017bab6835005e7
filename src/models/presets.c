/* Presets: model shapes by name. Sources: GPT-2, Radford et al. 2019; GPT-3, Brown et al. 2020, table 2.1; Megatron-LM,
 * Shoeybi et al. 2019; Turing-NLG, Microsoft 2020; GPT-NeoX-20B, Black et al. 2022; BLOOM, Le Scao et al. 2022. The
 * names zero-* are shapes that the ZeRO papers ran (arXiv 1910.02054 v1, tables 4 and 5; SC20, the appendix of its
 * artifact). gpt-1t has the width and heads of Megatron-LM's trillion-parameter model (Narayanan et al. 2021) and the
 * number of layers that comes closest to 10^12 parameters. megatron-7.5b is a row of Narayanan et al.'s table 1. The
 * ZeRO paper gives no shape for the 7.5B model of its table 1, so zero-7.5b has the blocks of megatron-7.5b with
 * GPT-2's vocabulary and positions. gpt2, gpt2-medium, gpt2-large and gpt2-xl are Hugging Face's names of GPT-2's four
 * sizes. gpt3-1.3b has 16 heads of 128, since the 24 heads that the paper gives do not divide its width. */
#include "zr/models.h"
#include "base/text/text.h"

#include <stdio.h>
#include <string.h>

/* columns: name, layers, width, heads, positions, vocabulary */
#define SHAPE_LIST(X)                                                                                                  \
    X("gpt2-124m", 12, 768, 12, 1024, 50257)                                                                           \
    X("gpt2-350m", 24, 1024, 16, 1024, 50257)                                                                          \
    X("gpt2-774m", 36, 1280, 20, 1024, 50257)                                                                          \
    X("gpt2-1.5b", 48, 1600, 25, 1024, 50257)                                                                          \
    X("gpt2", 12, 768, 12, 1024, 50257)                                                                                \
    X("gpt2-medium", 24, 1024, 16, 1024, 50257)                                                                        \
    X("gpt2-large", 36, 1280, 20, 1024, 50257)                                                                         \
    X("gpt2-xl", 48, 1600, 25, 1024, 50257)                                                                            \
    X("gpt3-1.3b", 24, 2048, 16, 2048, 50257)                                                                          \
    X("gpt3-2.7b", 32, 2560, 32, 2048, 50257)                                                                          \
    X("gpt3-6.7b", 32, 4096, 32, 2048, 50257)                                                                          \
    X("gpt3-13b", 40, 5120, 40, 2048, 50257)                                                                           \
    X("gpt3-175b", 96, 12288, 96, 2048, 50257)                                                                         \
    X("megatron-7.5b", 36, 4096, 32, 2048, 51200)                                                                      \
    X("megatron-8.3b", 72, 3072, 24, 1024, 50257)                                                                      \
    X("turing-nlg-17b", 78, 4256, 28, 1024, 50257)                                                                     \
    X("gpt-neox-20b", 44, 6144, 64, 2048, 50432)                                                                       \
    X("bloom-176b", 70, 14336, 112, 2048, 250880)                                                                      \
    X("gpt-1t", 127, 25600, 160, 1024, 50257)                                                                          \
    X("zero-1.16b", 24, 1920, 16, 1024, 50257)                                                                         \
    X("zero-1.2b", 40, 1536, 16, 1024, 50257)                                                                          \
    X("zero-1.38b", 40, 1536, 16, 1024, 50257)                                                                         \
    X("zero-1.5b-34x1920x16", 34, 1920, 16, 1024, 50257)                                                               \
    X("zero-1.5b-48x1600x16", 48, 1600, 16, 1024, 50257)                                                               \
    X("zero-2.5b", 54, 1920, 16, 1024, 50257)                                                                          \
    X("zero-4b", 64, 2304, 24, 1024, 50257)                                                                            \
    X("zero-5.9b", 72, 2592, 32, 1024, 50257)                                                                          \
    X("zero-6b", 52, 3072, 24, 1024, 50257)                                                                            \
    X("zero-7.5b", 36, 4096, 32, 1024, 50257)                                                                          \
    X("zero-8b", 72, 3072, 24, 1024, 50257)                                                                            \
    X("zero-10b", 50, 4096, 32, 1024, 50257)                                                                           \
    X("zero-11b", 54, 4096, 32, 1024, 50257)                                                                           \
    X("zero-12b", 58, 4096, 32, 1024, 50257)                                                                           \
    X("zero-13b", 62, 4096, 32, 1024, 50257)                                                                           \
    X("zero-20b-98x4096x32", 98, 4096, 32, 1024, 50257)                                                                \
    X("zero-20b-111x3808x32", 111, 3808, 32, 1024, 50257)                                                              \
    X("zero-40b-50x8192x32", 50, 8192, 32, 1024, 50257)                                                                \
    X("zero-40b-88x6144x32", 88, 6144, 32, 1024, 50257)                                                                \
    X("zero-40b-88x6144x64", 88, 6144, 64, 1024, 50257)                                                                \
    X("zero-50b", 62, 8192, 32, 1024, 50257)                                                                           \
    X("zero-60b-75x8192x32", 75, 8192, 32, 1024, 50257)                                                                \
    X("zero-60b-75x8192x64", 75, 8192, 64, 1024, 50257)                                                                \
    X("zero-60b-132x6144x32", 132, 6144, 32, 1024, 50257)                                                              \
    X("zero-60b-132x6144x64", 132, 6144, 64, 1024, 50257)                                                              \
    X("zero-80b-100x8192x64", 100, 8192, 64, 1024, 50257)                                                              \
    X("zero-80b-100x8192x128", 100, 8192, 128, 1024, 50257)                                                            \
    X("zero-80b-112x7680x80", 112, 7680, 80, 1024, 50257)                                                              \
    X("zero-80b-173x6144x32", 173, 6144, 32, 1024, 50257)                                                              \
    X("zero-100b-125x8192x64", 125, 8192, 64, 1024, 50257)                                                             \
    X("zero-100b-125x8192x128", 125, 8192, 128, 1024, 50257)                                                           \
    X("zero-100b-317x5120x80", 317, 5120, 80, 1024, 50257)                                                             \
    X("zero-120b-150x8192x64", 150, 8192, 64, 1024, 50257)                                                             \
    X("zero-120b-150x8192x128", 150, 8192, 128, 1024, 50257)                                                           \
    X("zero-140b-175x8192x64", 175, 8192, 64, 1024, 50257)                                                             \
    X("zero-140b-175x8192x128", 175, 8192, 128, 1024, 50257)                                                           \
    X("zero-150b", 187, 8192, 64, 1024, 50257)                                                                         \
    X("zero-170b-212x8192x64", 212, 8192, 64, 1024, 50257)                                                             \
    X("zero-170b-212x8192x256", 212, 8192, 256, 1024, 50257)                                                           \
    X("zero-c1", 50, 8192, 32, 1024, 50257)                                                                            \
    X("zero-c2", 132, 6144, 64, 1024, 50257)                                                                           \
    X("zero-c3", 62, 8192, 32, 1024, 50257)                                                                            \
    X("zero-c4", 175, 8192, 64, 1024, 50257)                                                                           \
    X("zero-c5", 187, 8192, 64, 1024, 50257)

enum { NEAREST = 6, NEAREST_BYTES = 256 };

#define SHAPE_ROW(name, layers, width, heads, positions, vocabulary)                                                   \
    {.n_layer = layers,                                                                                                \
     .n_embd = width,                                                                                                  \
     .n_head = heads,                                                                                                  \
     .n_positions = positions,                                                                                         \
     .vocab_size = vocabulary,                                                                                         \
     .layer_norm_epsilon = 1e-5,                                                                                       \
     .initializer_range = 0.02},
static const zr_gpt2_config shapes[] = {SHAPE_LIST(SHAPE_ROW)};
#define SHAPE_NAME(name, ...) name,
static const char *const names[] = {SHAPE_LIST(SHAPE_NAME) NULL};
enum { SHAPES = sizeof shapes / sizeof *shapes };

const char *const *zr_gpt2_presets(void)
{
    return names;
}

/* Return the length of the longest prefix of `wanted` that occurs anywhere in `name`. For example, "60b" occurs in
 * zero-60b-75x8192x32. */
static size_t likeness(const char *name, const char *wanted)
{
    size_t most = 0;
    for (; *name; name++) {
        size_t n = 0;
        while (name[n] && name[n] == wanted[n]) n++;
        if (n > most) most = n;
    }
    return most;
}

/* List up to NEAREST names that contain a prefix of `wanted` of at least half its length, longest prefix first. A space
 * precedes each name. */
static void nearest(const char *wanted, char text[NEAREST_BYTES])
{
    size_t used = 0, length = strlen(wanted), found = 0;
    text[0] = '\0';
    /* Begin with a name at edit distance 1, unless some name contains all of `wanted`. */
    const char *close = zr__text_nearest(wanted, names, SHAPES);
    if (close && zr__text_distance(wanted, close) > 1) close = NULL;
    for (size_t i = 0; i < SHAPES; i++)
        if (likeness(names[i], wanted) == length) close = NULL;
    if (close) {
        used += (size_t)snprintf(text, NEAREST_BYTES, " %s", close);
        found++;
    }
    for (size_t like = length; like > 0 && 2 * like >= length; like--)
        for (size_t i = 0; i < SHAPES && found < NEAREST; i++) {
            if (likeness(names[i], wanted) != like || names[i] == close) continue;
            used += (size_t)snprintf(text + used, NEAREST_BYTES - used, " %s", names[i]);
            found++;
        }
}

zr_status zr_gpt2_preset(const char *name, zr_gpt2_config *config)
{
    for (size_t i = 0; i < SHAPES; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *config = shapes[i];
        return ZR_OK;
    }
    char near[NEAREST_BYTES];
    nearest(name, near);
    return ZR_FAIL(ZR_ERR_NOT_FOUND, "there is no preset \"%s\"%s%s; `zr plan --shapes` lists all %d", name,
                   near[0] ? "; nearest:" : "", near, (int)SHAPES);
}
