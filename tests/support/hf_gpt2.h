/* config.json and names of tensors of a GPT-2, for tests. */
#ifndef HF_GPT2_H
#define HF_GPT2_H

#include <string.h>

#include "zr/checkpoint.h"
#include "zr/models.h"

static inline const zr_hf_names *hf_gpt2_names(void)
{
    return &zr_family_find("gpt2")->names;
}

/* Write dir/config.json of a model. */
static inline zr_status hf_gpt2_write(const char *dir, const zr_gpt2_config *sizes)
{
    const zr_family *gpt2 = zr_family_find("gpt2");
    zr_model_config config = {0};
    memcpy(&config, sizes, sizeof(*sizes));
    gpt2->complete(&config);
    return zr_hf_write(dir, gpt2, &config);
}

/* Read dir/config.json. If it cannot be read, leave *sizes unchanged. */
static inline zr_status hf_gpt2_read(const char *dir, zr_gpt2_config *sizes)
{
    const zr_family *family = NULL;
    zr_model_config config;
    zr_status st = zr_hf_read(dir, &family, &config);
    if (st != ZR_OK) return st;
    if (family != zr_family_find("gpt2")) return ZR_ERR_ARG;
    memcpy(sizes, &config, sizeof(*sizes));
    return ZR_OK;
}

#endif
