/** models: the rows of the table of families (families.c). Each row is defined in a separate file. */
#ifndef ZR_MODELS_FAMILIES_H
#define ZR_MODELS_FAMILIES_H

#include "zr/models.h"

#include <stddef.h>

/** Declare a size of a model as a field (zr_field). The family's struct `settings` has a member `model`, and the size
 * is a member of `model` with the name of the key. */
#define ZR__FIELD_SIZE(settings, name, default_of_transformers, what, ...)                                             \
    {                                                                                                                  \
        .key = #name, .type = ZR_FIELD_INT, .role = ZR_FIELD_SHAPE, .offset = offsetof(settings, model.name),          \
        .standard = "\"auto\"", .fallback = default_of_transformers, .min = 1, .max = 0x1p53, .means = what,           \
        .help = __VA_ARGS__                                                                                            \
    }

/** Declare a field by its type, its key, its member of the struct `settings`, its role, its default, and then other
 * members of zr_field. */
#define ZR__FIELD(settings, its_type, name, member, its_role, ...)                                                     \
    {                                                                                                                  \
        .key = name, .type = ZR_FIELD_##its_type, .role = ZR_FIELD_##its_role, .offset = offsetof(settings, member),   \
        .standard = __VA_ARGS__                                                                                        \
    }
/** Declare a field of config.json for which zr supports only one value. The value follows the key. */
#define ZR__FIELD_ONLY(name, ...)                                                                                      \
    {                                                                                                                  \
        .key = name, .type = ZR_FIELD_FIXED, .place = ZR_FIELD_IN_HF, .standard = __VA_ARGS__                          \
    }
/** Declare the standard deviation of initial weights, a member of `model`. */
#define ZR__FIELD_DEVIATION(settings)                                                                                  \
    ZR__FIELD(settings, REAL, "initializer_range", model.initializer_range, START, "0.02", .max = 10,                  \
              .means = "initial deviation", .help = "standard deviation of the initial weights")

extern const zr_family zr__family_gpt2;
extern const zr_family zr__family_bert, zr__family_bert_preln;
extern const zr_family zr__family_llama, zr__family_mistral, zr__family_qwen2, zr__family_qwen3;

/** Maximum number of layers of a model. */
#define ZR__LAYERS_MAX (1 << 16)
/** Fail with ZR_ERR_CONFIG unless a size is from 1 to `most`, or a dropout probability from 0 to below 1. `model`, such
 * as "gpt2: ", begins the message. */
ZR_NODISCARD zr_status zr__check_size(const char *model, const char *field, int64_t value, int64_t most);
ZR_NODISCARD zr_status zr__check_dropout(const char *model, const char *field, double value);

/** Check the sizes of a model. Fail with ZR_ERR_CONFIG, naming the field, if a size is impossible. Also fail if the
 * number of parameters would overflow int64. */
ZR_NODISCARD zr_status zr__gpt2_check(const zr_gpt2_config *config);
ZR_NODISCARD zr_status zr__llama_check(const zr_llama_config *config);
ZR_NODISCARD zr_status zr__bert_check(const zr_bert_config *config);

#endif
