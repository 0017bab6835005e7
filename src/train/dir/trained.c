/* trained.json: the step and the validation loss of weights. */
#include "train/dir/run_files.h"

#include "base/file/commit.h"
#include "base/file/folder.h"
#include "base/json/json.h"
#include "base/text/text.h"

#include <math.h>
#include <stdio.h>

/* Size of trained.json in bytes. Spaces pad the file to this size, so that writing the values later needs no further
 * disk space. */
enum { FILE_BYTES = 128 };

zr_status zr__trained_reserve(const char *dir)
{
    char path[PATH_MAX], text[FILE_BYTES + 1];
    snprintf(text, sizeof(text), "%-*s\n", FILE_BYTES - 1, "{}");
    ZR_TRY(zr__path_join(path, dir, ZR_TRAINED_NAME));
    return zr__file_put(path, text, FILE_BYTES);
}

zr_status zr__trained_write(const char *dir, const zr__trained *trained)
{
    ZR_AUTO(zr__file_close) zr__file file = {.fd = -1};
    char path[PATH_MAX], json[FILE_BYTES], text[FILE_BYTES + 1];
    const bool known = isfinite(trained->val_loss);
    snprintf(json, sizeof(json), "{\"step\":%lld%s%s}", (long long)trained->step, known ? ", \"val_loss\":" : "",
             known ? ZR_SHORTEST(trained->val_loss) : "");
    snprintf(text, sizeof(text), "%-*s\n", FILE_BYTES - 1, json);
    ZR_TRY(zr__path_join(path, dir, ZR_TRAINED_NAME));
    ZR_TRY(zr__file_open(path, true, &file));
    ZR_TRY(zr__file_write(&file, 0, text, FILE_BYTES));
    return zr__file_sync(&file);
}

zr_status zr__trained_read(const char *dir, zr__trained *trained)
{
    char path[PATH_MAX];
    json_auto_t *root = NULL;
    *trained = (zr__trained){-1, INFINITY};
    ZR_TRY(zr__path_join(path, dir, ZR_TRAINED_NAME));
    zr_status st = zr__json_load_data(path, &root);
    const json_t *step = json_object_get(root, "step"), *loss = json_object_get(root, "val_loss");
    if (json_is_integer(step) && json_integer_value(step) >= 0) trained->step = json_integer_value(step);
    if (json_is_number(loss)) trained->val_loss = json_number_value(loss);
    return st == ZR_ERR_IO || st == ZR_ERR_MEMORY ? st : ZR_OK;
}
