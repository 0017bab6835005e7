/** models: the rows of the table of families (families.c). Each is in a file of its own. */
#ifndef ZR_MODELS_FAMILIES_H
#define ZR_MODELS_FAMILIES_H

#include "zr/models.h"

extern const zr_family zr__family_gpt2;
extern const zr_family zr__family_bert, zr__family_bert_preln;
extern const zr_family zr__family_llama, zr__family_mistral, zr__family_qwen2, zr__family_qwen3;

#endif
