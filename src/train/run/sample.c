/** Sample texts: rank 0 chooses the tokens, and all ranks decode them. */
#include "train/run/run.h"

#include "train/generate/generate.h"

#include <string.h>

/* Temperature of samples, equal to the default of `zr generate`. */
#define TEMPERATURE 0.8

/* ---- all ranks decode ------------------------------------------------------------------------ */

/** Message from rank 0 to all ranks: the next token to decode, or the end of the text. */
typedef struct next_token {
    int32_t token;
    bool goes_on; /* whether the text continues */
    int64_t position;
} next_token;

/** Send rank 0's message to all ranks. Fail with ZR_ERR_STOPPED if the run was asked to stop. */
static zr_status share_token(zr__run *r, next_token *next)
{
    ZR_TRY(zr__run_agree(&r->ranks, zr__run_stop_asked(r)));
    return zr__run_share(&r->ranks, next, sizeof(*next));
}

/** State of the text that rank 0 generates. */
typedef struct writing {
    zr__run *run;
    zr__text *kept;
    bool over; /* whether decoding failed on this rank; then the other ranks have stopped decoding too */
} writing;

static zr_status decode_with_all(zr__run *r, next_token *next, zr_tensor *output)
{
    ZR_TRY(share_token(r, next));
    if (!next->goes_on) return ZR_OK;
    return zr__run_agreed(&r->ranks, zr_engine_decode(r->engine, next->token, next->position, output));
}

/** Send a token of the text to all ranks and decode it. Only rank 0 calls this. The other ranks decode the token in
 * decode_along. */
static zr_status decode_mine(void *arg, int32_t token, int64_t position, zr_tensor *output)
{
    writing *w = arg;
    next_token next = {token, true, position};
    zr_status st = decode_with_all(w->run, &next, output);
    w->over = st != ZR_OK;
    return st;
}

/** Receive and decode the tokens that rank 0 sends, until its text ends. All ranks except rank 0 call this. */
static zr_status decode_along(zr__run *r)
{
    next_token next = {.goes_on = true};
    zr_tensor output;
    while (next.goes_on) ZR_TRY(decode_with_all(r, &next, &output));
    return zr__run_agree(&r->ranks, ZR_OK);
}

/* ---- rank 0 writes --------------------------------------------------------------------------- */

static zr_generate_args args_of(const zr_config *config)
{
    const char *prompt = config->train.sample_prompt ? config->train.sample_prompt : "";
    return (zr_generate_args){.prompt = prompt,
                              .prompt_bytes = (int64_t)strlen(prompt),
                              .tokens = config->train.sample_tokens,
                              .temperature = TEMPERATURE,
                              .seed = (uint64_t)config->train.seed};
}

static zr__writer writer_of(const zr__run *r, const zr_generate_args *args)
{
    return (zr__writer){.decode = decode_mine,
                        .tokenizer = r->tokenizer,
                        .vocab = zr_config_sizes(r->config).vocabulary,
                        .longest = r->plan->layout.decode_len,
                        .args = args};
}

static zr_status open_writer(zr__run *r)
{
    const zr_generate_args args = args_of(r->config);
    if (r->config->train.sample_tokens == 0 || r->ranks.comm->rank != 0) return ZR_OK;
    ZR_CHECK(args.prompt_bytes <= ZR__PROMPT_BYTES, ZR_ERR_CONFIG,
             "train.sample_prompt has %lld bytes; the limit is %d", (long long)args.prompt_bytes, ZR__PROMPT_BYTES);
    ZR_TRY(zr_tokenizer_open(r->config->data.tokenizer, &r->tokenizer));
    ZR_AUTO(zr__writer_close) zr__writer w = writer_of(r, &args);
    return zr__writer_open(&w);
}

zr_status zr__sample_open(zr__run *r)
{
    return zr__run_agree(&r->ranks, open_writer(r));
}

/** Append a text to the sample. If the text does not fit, cut it after the last complete UTF-8 character that fits. */
static zr_status append_sample(void *arg, const char *text, int64_t bytes)
{
    writing *w = arg;
    int64_t room = ZR__SAMPLE_BYTES - (int64_t)w->kept->length;
    if (bytes > room)
        while (room > 0 && ((unsigned char)text[room] & 0xc0) == 0x80) room--;
    zr__text_append(w->kept, text, (size_t)(bytes < room ? bytes : room));
    return ZR_OK;
}

/** Return the sample's line of metrics.jsonl. If the weights have diverged, only add a note, since the training loop
 * handles this case. */
static zr_status line_of(const writing *w, zr_status wrote, const char *why, char **line)
{
    const zr__run *r = w->run;
    if (wrote == ZR_ERR_DIVERGED) {
        zr__run_note(&r->ranks, "no sample text was written after step %lld: %.500s", (long long)r->ranks.result->steps,
                     why);
        return ZR_OK;
    }
    if (wrote != ZR_OK) return ZR_FAIL(wrote, "%s", why);
    ZR_CHECK(!w->kept->failed, ZR_ERR_MEMORY, "no memory for a text of %lld tokens",
             (long long)r->config->train.sample_tokens);
    return zr__metrics_sample(r->ranks.result->steps, w->kept->data ? w->kept->data : "", (int64_t)w->kept->length,
                              line);
}

static zr_status write_sample(zr__run *r, char **line)
{
    const zr_generate_args args = args_of(r->config);
    ZR_AUTO(zr__text_clear) zr__text kept = {0};
    writing text = {.run = r, .kept = &kept};
    ZR_AUTO(zr__writer_close) zr__writer w = writer_of(r, &args);
    next_token last = {.goes_on = false};
    w.arg = &text;
    (void)append_sample(&text, args.prompt, args.prompt_bytes);
    zr_status st = zr__writer_open(&w);
    if (st == ZR_OK) st = zr__writer_run(&w, append_sample, &text);
    if (text.over) return st;
    const char *why = ZR__WHY();
    ZR_TRY(share_token(r, &last));
    return zr__run_agree(&r->ranks, line_of(&text, st, why, line));
}

zr_status zr__sample_write(zr__run *r)
{
    ZR_AUTO_FREE char *line = NULL;
    zr__run_enter(&r->ranks, ZR__PHASE_EVALUATE);
    ZR_TRY(r->ranks.comm->rank == 0 ? write_sample(r, &line) : decode_along(r));
    if (line) zr__run_log_text(&r->ranks, &r->dir, line);
    return ZR_OK;
}
