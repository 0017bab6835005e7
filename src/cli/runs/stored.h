/** The tensors of what `zr inspect` and `zr verify` are given, file by file. */
#ifndef ZR_CLI_STORED_H
#define ZR_CLI_STORED_H

#include "cli/shell/cli.h"
#include "zr/checkpoint.h"

typedef struct cli_file {
    const char *name; /* in its directory */
    int64_t bytes;
    const zr_safetensors *tensors; /* NULL: holds none, as config.json */
    zr_chunk_reader *reader;       /* of a checkpoint: what is read is checked */
} cli_file;

/** All of them, open. */
typedef struct cli_files {
    cli_file *file;
    int n;
    int64_t elems;         /* of all tensors that can be read */
    zr_manifest *manifest; /* of a checkpoint */
    zr_weights *weights;
    zr_safetensors *single;
} cli_files;

/** Open what is stored; close it in any case. ZR_ERR_NOT_FOUND, ZR_ERR_DATA. */
ZR_NODISCARD zr_status cli_files_open(const zr_stored *stored, cli_files *files);
void cli_files_close(cli_files *files);

/** What a tensor's numbers are like. */
typedef struct cli_numbers {
    bool read;          /* false: of a type that zr does not read, or damaged */
    double norm;        /* L2, added up in fp64 */
    int64_t not_finite; /* so many, which are not in the norm */
    int64_t first_bad;  /* the first of those */
    zr_status status;   /* ZR_ERR_DATA: the bytes are not what was written */
    char why[512];
} cli_numbers;

/** Look at all numbers of a tensor. *done counts on, and `shown` (may be NULL) is told. Fails where the file cannot be
 *  read; damage is found in `numbers`. */
ZR_NODISCARD zr_status cli_numbers_of(const cli_file *file, const zr_safetensors_tensor *tensor, cli_numbers *numbers,
                                      int64_t *done, int64_t of, cli_amount_done *shown);

/** "checkpoint", "Hugging Face directory", "safetensors file". */
const char *cli_stored_name(zr_stored_kind kind);

#endif
