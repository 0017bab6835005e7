/** models: the rows of the table of families (families.c). Each is in a file of its own. */
#ifndef ZR_MODELS_FAMILIES_H
#define ZR_MODELS_FAMILIES_H

#include "zr/models.h"

extern const zr_family zr__family_gpt2;

#endif
