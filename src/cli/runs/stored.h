/** cli/runs: parts of the commands on runs and weights. progress.c prints the lines of a run, loss.c draws its
 * picture, and timings.c prints the table of where its time goes. hang_report.c ends a run whose ranks hang. own_dir.c
 * creates the directory of a run for which none was given. This header: the files and tensors at a path that `zr
 * inspect` or `zr verify` is given. */
#ifndef ZR_CLI_STORED_H
#define ZR_CLI_STORED_H

#include "cli/shell/line.h"
#include "train/weights/weights.h"
#include "zr/checkpoint.h"

typedef struct cli_file {
    const char *name; /* name of the file, without its directory */
    int64_t bytes;
    const zr_safetensors *tensors; /* NULL if the file has no tensors, as config.json */
    zr_chunk_reader *reader;       /* reader that verifies checksums; only for a checkpoint */
} cli_file;

/** The open files of a stored path. */
typedef struct cli_files {
    cli_file *file;
    int n;
    int64_t elems;         /* number of elements in all tensors */
    zr_manifest *manifest; /* only for a checkpoint, else NULL */
    zr_weights *weights;
    zr_safetensors *single;
} cli_files;

/** Open the files of a stored path. Close them with cli_files_close, even after a failure. Return ZR_ERR_NOT_FOUND or
 * ZR_ERR_DATA on failure. */
ZR_NODISCARD zr_status cli_files_open(const zr__stored *stored, cli_files *files);
void cli_files_close(cli_files *files);

/** Statistics of the numbers in a tensor. */
typedef struct cli_numbers {
    bool read;          /* whether the numbers were read; damaged numbers and types unknown to zr are not */
    double norm;        /* L2 norm, summed in fp64 */
    int64_t not_finite; /* number of values that are not finite; the norm leaves them out */
    int64_t first_bad;  /* index of the first number that is not finite */
    zr_status status;   /* ZR_ERR_DATA if the bytes are damaged, or ZR_OK */
    char why[512];
} cli_numbers;

/** Read all numbers of a tensor. Add the number of elements read to *done. Unless `shown` is NULL, show the progress.
 * Return an error if the file cannot be read; report damage only in `numbers`. */
ZR_NODISCARD zr_status cli_numbers_of(const cli_file *file, const zr_safetensors_tensor *tensor, cli_numbers *numbers,
                                      int64_t *done, int64_t of, cli_amount_done *shown);

/** Return "checkpoint", "Hugging Face directory" or "safetensors file". */
const char *cli_stored_name(zr__stored_kind kind);

#endif
