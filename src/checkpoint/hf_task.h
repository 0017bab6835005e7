/** The task of a model in config.json of Hugging Face, for families with several tasks (zr_family.task). */
#ifndef ZR_CHECKPOINT_HF_TASK_H
#define ZR_CHECKPOINT_HF_TASK_H

#include "base/json/json.h"
#include "zr/models.h"

/** Set the fields that mean "task" and "labels" from `architectures`, and from id2label or num_labels. Fail with
 * ZR_ERR_DATA, naming `file`, if the class of transformers is neither a task of the family nor one of its bodies. Do
 * nothing for a family with one task. */
ZR_NODISCARD zr_status zr__hf_read_task(const char *file, const json_t *root, const zr_family *family,
                                        zr_model_config *config);

/** Add id2label and label2id for a model with labels, unless `root` already names this number of labels. For a model of
 * another task, remove the keys of labels unless they name two labels, the default of transformers. Return nonzero on
 * failure. */
int zr__hf_write_labels(json_t *root, const zr_family *family, const zr_model_config *config);

#endif
