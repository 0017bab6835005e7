/**
 * cli/runs: the commands on runs and weights, a file cmd_NAME.c each. progress.c has the lines that a run prints,
 * loss.c its picture, timings.c its table of where the time goes, hang.c the end of a run whose ranks hang, own_dir.c
 * the directory of a run that was given none. This header: the tensors of the path that `zr inspect` or `zr verify` is
 * given, file by file.
 */
#ifndef ZR_CLI_STORED_H
#define ZR_CLI_STORED_H

#include "cli/shell/line.h"
#include "train/weights/weights.h"
#include "zr/checkpoint.h"

typedef struct cli_file {
    const char *name; /* name in its directory */
    int64_t bytes;
    const zr_safetensors *tensors; /* NULL: a file without tensors, such as config.json */
    zr_chunk_reader *reader;       /* only for a checkpoint: reads check the checksums */
} cli_file;

/** The open files. */
typedef struct cli_files {
    cli_file *file;
    int n;
    int64_t elems;         /* elements of all tensors */
    zr_manifest *manifest; /* of a checkpoint */
    zr_weights *weights;
    zr_safetensors *single;
} cli_files;

/** Open the files of a stored path; close them in any case. ZR_ERR_NOT_FOUND, ZR_ERR_DATA. */
ZR_NODISCARD zr_status cli_files_open(const zr__stored *stored, cli_files *files);
void cli_files_close(cli_files *files);

/** Statistics of a tensor's numbers. */
typedef struct cli_numbers {
    bool read;          /* false: damaged, or of a type that zr does not read */
    double norm;        /* L2, added up in fp64 */
    int64_t not_finite; /* numbers that are not finite, which are left out of the norm */
    int64_t first_bad;  /* index of the first number that is not finite */
    zr_status status;   /* ZR_ERR_DATA: the bytes are damaged */
    char why[512];
} cli_numbers;

/** Read all numbers of a tensor. *done counts on, and `shown` (may be NULL) is told. Fails where the file cannot be
 * read; damage is reported in `numbers`. */
ZR_NODISCARD zr_status cli_numbers_of(const cli_file *file, const zr_safetensors_tensor *tensor, cli_numbers *numbers,
                                      int64_t *done, int64_t of, cli_amount_done *shown);

/** Return "checkpoint", "Hugging Face directory" or "safetensors file". */
const char *cli_stored_name(zr__stored_kind kind);

#endif
