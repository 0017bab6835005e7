/* What the parts of a Hugging Face directory share. */
#ifndef ZR_CHECKPOINT_HF_H
#define ZR_CHECKPOINT_HF_H

#include "zr/checkpoint.h"

/** dir/name, zr_free it. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__hf_path(const char *dir, const char *name, char **path);

#endif
