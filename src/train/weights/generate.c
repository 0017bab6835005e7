#include "train/weights/load.h"
#include "train/weights/writer.h"
#include "zr/run.h"

#include <limits.h>
#include <math.h>

static zr_status check_generate_args(const zr_generate_args *args)
{
    ZR_CHECK(args->tokens >= 0 && args->tokens <= INT32_MAX, ZR_ERR_ARG,
             "%lld tokens to generate; 0 or more are possible", (long long)args->tokens);
    ZR_CHECK(isfinite(args->temperature) && args->temperature >= 0.0, ZR_ERR_ARG,
             "a temperature of %g; it must be 0 (likeliest token) or more", args->temperature);
    ZR_CHECK(args->top_k >= 0, ZR_ERR_ARG, "top-k of %lld; it must be 0 (all tokens) or more", (long long)args->top_k);
    ZR_CHECK(args->top_p >= 0.0 && args->top_p <= 1.0, ZR_ERR_ARG,
             "top-p of %g; it must be above 0 and at most 1 (all tokens)", args->top_p);
    ZR_CHECK(args->samples >= 0, ZR_ERR_ARG, "%lld samples; 1 or more are possible", (long long)args->samples);
    for (int64_t i = 0; i < args->n_stop; i++)
        ZR_CHECK(args->stop[i][0], ZR_ERR_ARG, "an empty text to stop at; it would stop before the first token");
    return ZR_OK;
}

static zr_status open_own_tokenizer(const zr__loaded *loaded, zr_tokenizer **tokenizer)
{
    char path[PATH_MAX];
    const char *name = NULL;
    ZR_TRY(zr__load_tokenizer(loaded, path, &name));
    ZR_CHECK(
        name, ZR_ERR_UNSUPPORTED,
        "the model has %lld tokens and no tokenizer: put its tokenizer.json, or vocab.json and merges.txt, into %s",
        (long long)loaded->model.sizes.vocabulary, loaded->stored.path);
    return zr_tokenizer_open(name, tokenizer);
}

static zr_status decode_token(void *arg, int32_t token, int64_t position, zr_tensor *output)
{
    return zr_engine_decode(arg, token, position, output);
}

static zr_status generate_text(const char *dir, zr__loaded *loaded, zr_tokenizer **tokenizer, zr__writer *w,
                               zr_emit_fn emit, void *arg)
{
    zr_layout layout = ZR_LAYOUT_INIT;
    ZR_TRY(zr__load_open(dir, loaded));
    ZR_TRY(open_own_tokenizer(loaded, tokenizer));
    layout.train = false;
    layout.eval = false;
    layout.decode_len = loaded->model.sizes.positions;
    ZR_TRY(zr__load_start(loaded, &layout, w->args->threads));
    w->decode = decode_token;
    w->arg = loaded->engine;
    w->tokenizer = *tokenizer;
    w->vocab = loaded->model.sizes.vocabulary;
    w->longest = layout.decode_len;
    ZR_TRY(zr__writer_open(w));
    return zr__writer_run(w, emit, arg);
}

zr_status zr_generate(const char *dir, const zr_generate_args *args, zr_emit_fn emit, void *arg)
{
    ZR_CHECK(dir && args && emit, ZR_ERR_ARG, "zr_generate was given a NULL pointer");
    ZR_TRY(check_generate_args(args));
    zr__loaded loaded = {0};
    zr_tokenizer *tokenizer = NULL;
    zr__writer w = {.args = args};
    zr_status st = generate_text(dir, &loaded, &tokenizer, &w, emit, arg);
    zr__writer_close(&w);
    zr_tokenizer_close(&tokenizer);
    zr__load_close(&loaded);
    return st;
}
