/** Adapters of a model (LoRA): opens adapter directories of peft together with their base, and describes adapters for
 * writing. */
#ifndef ZR_TRAIN_ADAPTER_H
#define ZR_TRAIN_ADAPTER_H

#include "checkpoint/checkpoint.h"
#include "train/family/family.h"

/** Return whether a graph has adapters. */
bool zr__has_adapters(const zr_graph *graph);

/** Open an adapter directory, or a checkpoint of a run with adapters, and the weights of its base. `base` is the
 * directory of the base. If it is "", it receives the directory that adapter_config.json names; a relative path may
 * begin at the current directory, at `dir` or at a directory above it. model->lora borrows from *weights. `note` (of
 * `size` bytes, may be NULL) receives the names of tensors of the base that the model does not use. Close *weights even
 * after a failure. Errors: ZR_ERR_NOT_FOUND; ZR_ERR_DATA if the adapter does not fit its base. */
ZR_NODISCARD zr_status zr__adapter_open(const char *dir, char base[4096], zr__family_model *model, zr_weights **weights,
                                        char *note, size_t size);

/** Check that the weights have all parameters of a model's base in their shapes. If `adapter` is not NULL, also check
 * the parameters of the adapters, and that `adapter` has no further tensors. */
ZR_NODISCARD zr_status zr__adapter_fits(const zr_weights *weights, const zr__family_model *model,
                                        const zr__adapter *adapter, char *note, size_t size);

/** Check that the weights of another task have all parameters of a model's body, and that parameters of its head, if
 * the weights have them, have the same shapes. `fresh` (of `size` bytes) receives the names of the parameters that the
 * weights lack, which must belong to the head (zr_hf_names.heads). `note` (of `size` bytes) receives the names of the
 * tensors that the model does not use. */
ZR_NODISCARD zr_status zr__body_fits(const zr_weights *weights, const zr__family_model *model, char *note, char *fresh,
                                     size_t size);

/** Describe the adapters of a model and its graph for adapter_config.json. `base` is the directory of the base model,
 * or NULL. Call zr__adapter_clear afterwards. */
ZR_NODISCARD zr_status zr__adapter_describe(const zr_graph *graph, const zr__family_model *model, const char *base,
                                            zr__adapter *adapter);

/** Return the tensors of a new adapter file: the factors, with the names of peft. The names are in the same allocation;
 * zr_free the list. */
ZR_NODISCARD zr_status zr__adapter_specs(const zr_graph *graph, zr__tensor_spec **specs, int64_t *n);

#endif
