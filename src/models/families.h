/** models: the rows of the table of families (families.c). Each row is defined in a separate file. */
#ifndef ZR_MODELS_FAMILIES_H
#define ZR_MODELS_FAMILIES_H

#include "zr/models.h"

#include <stddef.h>

/** Declare a size of a model as a field (zr_field). The struct `settings` of the family has a member `model` with the
 * size under the key's name. */
#define ZR__FIELD_SIZE(settings, name, default_of_transformers, what, ...)                                             \
    {                                                                                                                  \
        .key = #name, .type = ZR_FIELD_INT, .role = ZR_FIELD_SHAPE, .offset = offsetof(settings, model.name),          \
        .standard = "\"auto\"", .fallback = default_of_transformers, .min = 1, .max = 0x1p53, .means = what,           \
        .help = __VA_ARGS__                                                                                            \
    }

extern const zr_family zr__family_gpt2;
extern const zr_family zr__family_bert, zr__family_bert_preln;
extern const zr_family zr__family_llama, zr__family_mistral, zr__family_qwen2, zr__family_qwen3;

#endif
