/* GPT-2's row of the table of families. */
#include "base/text/text.h"
#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "train/family/family.h"

#include <stdio.h>

_Static_assert(sizeof(zr_gpt2_config) <= ZR_FAMILY_BYTES, "a GPT-2's numbers lie in a zr__family_model");

static zr_status preset_gpt2(const char *name, void *numbers)
{
    return zr_gpt2_preset(name, numbers);
}

static void configure_gpt2(const zr_config *config, void *numbers)
{
    const zr_config_sizes *sizes = &config->model.sizes;
    *(zr_gpt2_config *)numbers = (zr_gpt2_config){.n_layer = sizes->n_layer,
                                                  .n_head = sizes->n_head,
                                                  .n_embd = sizes->n_embd,
                                                  .n_positions = sizes->n_positions,
                                                  .vocab_size = sizes->vocab_size,
                                                  .embd_pdrop = config->model.embd_pdrop,
                                                  .resid_pdrop = config->model.resid_pdrop,
                                                  .attn_pdrop = config->model.attn_pdrop,
                                                  .layer_norm_epsilon = config->model.layer_norm_epsilon,
                                                  .initializer_range = config->model.initializer_range};
}

/** Read config.json, but leave the dropout rates 0. An evaluation needs no dropout, and a run that starts from the
 * directory sets its own rates. */
static zr_status read_gpt2(const char *dir, void *numbers)
{
    zr_hf_gpt2 hf;
    ZR_TRY(zr_hf_gpt2_read(dir, &hf));
    *(zr_gpt2_config *)numbers = (zr_gpt2_config){.n_layer = hf.n_layer,
                                                  .n_head = hf.n_head,
                                                  .n_embd = hf.n_embd,
                                                  .n_positions = hf.n_positions,
                                                  .vocab_size = hf.vocab_size,
                                                  .layer_norm_epsilon = hf.layer_norm_epsilon,
                                                  .initializer_range = hf.initializer_range};
    return ZR_OK;
}

static zr_status check_gpt2(const void *numbers)
{
    return zr_gpt2_check(numbers);
}

static zr_config_sizes sizes_gpt2(const void *numbers)
{
    const zr_gpt2_config *c = numbers;
    return (zr_config_sizes){c->n_layer, c->n_head, c->n_embd, c->n_positions, c->vocab_size};
}

static zr_model builder_gpt2(const void *numbers)
{
    return zr_gpt2(numbers);
}

static zr_status adopt_gpt2(const void *numbers, zr_config *config)
{
    const zr_gpt2_config *c = numbers;
    if (zr__config_given(config, "model.layer_norm_epsilon")) return ZR_OK;
    return zr_config_set(config, "model.layer_norm_epsilon", ZR_SHORTEST(c->layer_norm_epsilon));
}

/** Add a note if the model was trained with dropout, but no key of the configuration sets dropout. The run then trains
 * without dropout. */
static zr_status tell_dropout(const char *dir, zr_config *config)
{
    static const char *const key[] = {"model.dropout", "model.embd_pdrop", "model.resid_pdrop", "model.attn_pdrop"};
    zr_hf_gpt2 hf;
    char note[ZR_SHOWN_BYTES + 256];
    for (size_t i = 0; i < sizeof(key) / sizeof(key[0]); i++)
        if (zr__config_given(config, key[i])) return ZR_OK;
    ZR_TRY(zr_hf_gpt2_read(dir, &hf));
    if (hf.embd_pdrop == 0 && hf.resid_pdrop == 0 && hf.attn_pdrop == 0) return ZR_OK;
    if (hf.embd_pdrop == hf.resid_pdrop && hf.embd_pdrop == hf.attn_pdrop)
        snprintf(note, sizeof(note),
                 "model.dropout: 0, because no key sets it, although the model in %s was trained with dropout %s; "
                 "--model.dropout=%s uses the same",
                 ZR_SHOWN(dir), ZR_SHORTEST(hf.embd_pdrop), ZR_SHORTEST(hf.embd_pdrop));
    else
        snprintf(
            note, sizeof(note),
            "model.dropout: 0, because no key sets it, although the model in %s was trained with --model.embd_pdrop=%s "
            "--model.resid_pdrop=%s --model.attn_pdrop=%s",
            ZR_SHOWN(dir), ZR_SHORTEST(hf.embd_pdrop), ZR_SHORTEST(hf.resid_pdrop), ZR_SHORTEST(hf.attn_pdrop));
    return zr__config_add_note(config, note);
}

static zr_status write_gpt2(const char *dir, const void *numbers)
{
    const zr_gpt2_config *c = numbers;
    zr_hf_gpt2 hf = {.n_layer = c->n_layer,
                     .n_head = c->n_head,
                     .n_embd = c->n_embd,
                     .n_positions = c->n_positions,
                     .vocab_size = c->vocab_size,
                     .embd_pdrop = c->embd_pdrop,
                     .resid_pdrop = c->resid_pdrop,
                     .attn_pdrop = c->attn_pdrop,
                     .layer_norm_epsilon = c->layer_norm_epsilon,
                     .initializer_range = c->initializer_range,
                     .tie_word_embeddings = true};
    return zr__hf_gpt2_write(dir, &hf);
}

const zr__family zr__family_gpt2 = {.name = "gpt2",
                                    .presets = zr_gpt2_presets,
                                    .preset = preset_gpt2,
                                    .configure = configure_gpt2,
                                    .read = read_gpt2,
                                    .check = check_gpt2,
                                    .sizes = sizes_gpt2,
                                    .builder = builder_gpt2,
                                    .adopt = adopt_gpt2,
                                    .tell = tell_dropout,
                                    .write = write_gpt2,
                                    .names = zr_hf_gpt2_names,
                                    .fill = zr__next_token_fill,
                                    .pad = zr__next_token_pad};
