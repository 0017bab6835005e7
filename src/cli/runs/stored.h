/** cli/runs: code that commands use for runs and weights. progress.c prints the lines of a run, loss.c draws its
 * picture, and timings.c prints where its time goes. hang_report.c ends a run whose ranks hang. own_dir.c creates a
 * run's directory if the user gave no directory. This header declares the files and tensors that `zr inspect` and `zr
 * verify` read. */
#ifndef ZR_CLI_STORED_H
#define ZR_CLI_STORED_H

#include "checkpoint/checkpoint.h"
#include "cli/shell/line.h"
#include "train/weights/weights.h"
#include "zr/checkpoint.h"

typedef struct cli_file {
    const char *name; /* file name without its directory */
    int64_t bytes;
    const zr_safetensors *tensors; /* tensors of the file, or NULL for a file such as config.json */
    zr__chunk_reader *reader;      /* reader of a checkpoint's file, which verifies checksums; else NULL */
} cli_file;

/** The open files of a checkpoint, a Hugging Face directory, or a single safetensors file. */
typedef struct cli_files {
    cli_file *file;
    int n;
    int64_t elems;          /* number of elements in all tensors */
    zr__manifest *manifest; /* manifest of a checkpoint, else NULL */
    zr_weights *weights;
    zr_safetensors *single;
} cli_files;

/** Open the files of a stored path. Close them with cli_files_close, even after a failure. Return ZR_ERR_NOT_FOUND or
 * ZR_ERR_DATA on failure. */
ZR_NODISCARD zr_status cli_files_open(const zr__stored *stored, cli_files *files);
void cli_files_close(cli_files *files);

/** Statistics of the numbers in a tensor. */
typedef struct cli_numbers {
    bool read;          /* whether the numbers were read; false if they are damaged or have an unknown data type */
    double norm;        /* L2 norm, summed in fp64 */
    int64_t not_finite; /* number of values that are not finite, which the norm leaves out */
    int64_t first_bad;  /* index of the first value that is not finite */
    zr_status status;   /* ZR_ERR_DATA if the bytes are damaged, else ZR_OK */
    char why[512];
} cli_numbers;

/** Read all numbers of a tensor, and compute their statistics. Add the number of elements to *done. Unless `shown` is
 * NULL, show that *done of `of` elements are done. Return an error if the file cannot be read. Damage is not an error,
 * and is reported only in `numbers`. */
ZR_NODISCARD zr_status cli_numbers_of(const cli_file *file, const zr_safetensors_tensor *tensor, cli_numbers *numbers,
                                      int64_t *done, int64_t of, cli_amount_done *shown);

/** Return "checkpoint", "Hugging Face directory" or "safetensors file". */
const char *cli_stored_name(zr__stored_kind kind);

#endif
