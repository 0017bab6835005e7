/** cli/runs: parts of the commands on runs and weights. progress.c prints a run's lines, loss.c draws its picture,
 * timings.c prints the table of where its time goes, hang_report.c ends a run whose ranks hang, own_dir.c creates the
 * directory of a run for which none was given. This header: the tensors at the path that `zr inspect` or `zr verify` is
 * given, file by file. */
#ifndef ZR_CLI_STORED_H
#define ZR_CLI_STORED_H

#include "cli/shell/line.h"
#include "train/weights/weights.h"
#include "zr/checkpoint.h"

typedef struct cli_file {
    const char *name; /* file name without its directory */
    int64_t bytes;
    const zr_safetensors *tensors; /* NULL for a file without tensors, such as config.json */
    zr_chunk_reader *reader;       /* only for a checkpoint: a reader that verifies checksums */
} cli_file;

/** The open files of a stored path. */
typedef struct cli_files {
    cli_file *file;
    int n;
    int64_t elems;         /* number of elements of all tensors */
    zr_manifest *manifest; /* only for a checkpoint */
    zr_weights *weights;
    zr_safetensors *single;
} cli_files;

/** Open the files of a stored path. Close them with cli_files_close, even after a failure. Return ZR_ERR_NOT_FOUND or
 * ZR_ERR_DATA on failure. */
ZR_NODISCARD zr_status cli_files_open(const zr__stored *stored, cli_files *files);
void cli_files_close(cli_files *files);

/** Statistics of a tensor's numbers. */
typedef struct cli_numbers {
    bool read;          /* false if the numbers are damaged, or of a type that zr does not read */
    double norm;        /* L2 norm, summed in fp64 */
    int64_t not_finite; /* count of numbers that are not finite; the norm omits them */
    int64_t first_bad;  /* index of the first number that is not finite */
    zr_status status;   /* ZR_ERR_DATA if the bytes are damaged, or ZR_OK */
    char why[512];
} cli_numbers;

/** Read all numbers of a tensor. Add the elements read to *done and, unless `shown` is NULL, show the progress. A file
 * that cannot be read is an error; damage is reported in `numbers`. */
ZR_NODISCARD zr_status cli_numbers_of(const cli_file *file, const zr_safetensors_tensor *tensor, cli_numbers *numbers,
                                      int64_t *done, int64_t of, cli_amount_done *shown);

/** Return "checkpoint", "Hugging Face directory" or "safetensors file". */
const char *cli_stored_name(zr__stored_kind kind);

#endif
