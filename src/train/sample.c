#include "train/sample.h"

#include "base/text.h"
#include "train/metrics.h"
#include "train/writer.h"

#include <string.h>

/* As `zr generate` draws where nothing else is said. */
#define TEMPERATURE 0.8

bool zr__sample_is_due(const zr__run *r)
{
    const int64_t step = r->result->steps, interval = r->config->train.eval_interval;
    const bool now = step == r->config->train.steps || (interval > 0 && step % interval == 0);
    return r->config->train.sample_tokens > 0 && now;
}

static zr_status keep(void *arg, const char *text, int64_t bytes)
{
    zr__text *kept = arg;
    const int64_t room = ZR__SAMPLE_BYTES - (int64_t)kept->length;
    zr__text_append(kept, text, (size_t)(bytes < room ? bytes : room));
    return ZR_OK;
}

static zr_status line_of(const zr__run *r, zr__text *kept, char **line)
{
    ZR_CHECK(!kept->failed, ZR_ERR_MEMORY, "no memory for a sample of %lld tokens",
             (long long)r->config->train.sample_tokens);
    if (r->comm->rank != 0) return ZR_OK;
    return zr__metrics_sample(r->result->steps, kept->data ? kept->data : "", (int64_t)kept->length, line);
}

/* Each rank draws the same tokens from the same logits, and so needs no other. */
zr_status zr__sample_write(zr__run *r, char **line)
{
    const zr_config *config = r->config;
    const char *prompt = config->train.sample_prompt ? config->train.sample_prompt : "";
    const zr_generate_args args = {.prompt = prompt,
                                   .prompt_bytes = (int64_t)strlen(prompt),
                                   .tokens = config->train.sample_tokens,
                                   .temperature = TEMPERATURE,
                                   .seed = (uint64_t)config->train.seed};
    zr_tokenizer *tokenizer = NULL;
    zr__text kept = {0};
    *line = NULL;
    zr_status st = zr_tokenizer_open(config->data.tokenizer, &tokenizer);
    zr__writer w = {.engine = r->engine,
                    .tokenizer = tokenizer,
                    .vocab = config->model.sizes.vocab_size,
                    .longest = r->plan->layout.decode_len,
                    .args = &args};
    if (st == ZR_OK) st = zr__writer_open(&w);
    ZR_TRY_GOTO(st, zr__run_agree(r, st), done);
    keep(&kept, args.prompt, args.prompt_bytes);
    r->result->agreed = false;
    ZR_TRY_GOTO(st, zr__writer_run(&w, keep, &kept), done);
    st = zr__run_agree(r, line_of(r, &kept, line));
done:
    zr__writer_close(&w);
    zr_tokenizer_close(&tokenizer);
    zr__text_clear(&kept);
    return st;
}
