/* Hugging Face directories: file names. hf_config.c reads and writes config.json, and weights.c and weights_write.c
 * handle the files of weights. */
#ifndef ZR_CHECKPOINT_HF_H
#define ZR_CHECKPOINT_HF_H

/** Names of the weight files in a directory. If there are several files, they are model-00001-of-00003.safetensors and
 * so on, listed in the index. */
#define ZR_WEIGHTS_SINGLE "model.safetensors"
#define ZR_WEIGHTS_INDEX "model.safetensors.index.json"
#define ZR_WEIGHTS_NAME_BYTES 64

#endif
