/** Rates of a disk: measured in a folder with a store, and kept in the user's cache beside the rates of the machine. */
#include "base/text/text.h"
#include "store/store.h"
#include "train/host/host.h"
#include "train/measure/machine.h"
#include "train/measure/measure.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Bytes of the measured store. A smaller store might fit into the cache of a drive. */
#define DISK_BYTES ((int64_t)1 << 30)
#define DISK_QUICK_BYTES ((int64_t)1 << 26)
/* sizes of transfers that plans usually choose */
#define DISK_BLOCK_BYTES ((int64_t)1 << 20)
#define DISK_DEPTH 8

static void disk_key(char key[ZR__MACHINE_KEY_BYTES])
{
    char processor[160];
    zr__host_processor(processor, sizeof(processor));
    snprintf(key, ZR__MACHINE_KEY_BYTES, "disk, %s, zr %s", processor, zr_version());
}

zr_status zr__disk_measure(const char *folder, bool quick, zr__folder_rates *rates)
{
    zr__store_rates found;
    char path[PATH_MAX];
    ZR_CHECK(*folder, ZR_ERR_CREATE, "the test of the disk: the folder's name is empty; name an existing folder");
    ZR_TRY(zr__store_measure(folder, quick ? DISK_QUICK_BYTES : DISK_BYTES, DISK_BLOCK_BYTES, DISK_DEPTH, &found));
    *rates = (zr__folder_rates){.read = found.read, .write = found.write, .both = found.mixed, .direct = found.direct};
    snprintf(rates->transfers, sizeof(rates->transfers), "%s", found.transfers);
    zr__text_escape(realpath(folder, path) ? path : folder, rates->folder, sizeof(rates->folder));
    return ZR_OK;
}

zr_status zr__disk_remember(const zr__folder_rates *rates)
{
    char key[ZR__MACHINE_KEY_BYTES];
    disk_key(key);
    ZR_CHECK(isfinite(rates->read) && isfinite(rates->write) && isfinite(rates->both), ZR_ERR_ARG,
             "one of the measured rates of %s is infinite or not a number; measure again", rates->folder);
    return zr__machine_remember("disk", key,
                                json_pack("{s:s, s:s, s:f, s:f, s:f, s:b, s:s}", "machine", key, "folder",
                                          rates->folder, "read_bytes_sec", rates->read, "write_bytes_sec", rates->write,
                                          "both_bytes_sec", rates->both, "direct", rates->direct, "transfers",
                                          rates->transfers));
}

static bool read_disk_rates(void *arg, const json_t *root)
{
    zr__folder_rates *rates = arg;
    const char *folder = "", *transfers = "";
    int direct = 0;
    *rates = (zr__folder_rates){0};
    if (json_unpack((json_t *)root, "{s:s, s:F, s:F, s:F, s?b, s?s}", "folder", &folder, "read_bytes_sec", &rates->read,
                    "write_bytes_sec", &rates->write, "both_bytes_sec", &rates->both, "direct", &direct, "transfers",
                    &transfers) != 0)
        return false;
    rates->direct = direct;
    snprintf(rates->folder, sizeof(rates->folder), "%s", folder);
    snprintf(rates->transfers, sizeof(rates->transfers), "%s", transfers);
    return rates->read > 0 && rates->write > 0 && rates->both > 0;
}

zr_status zr__disk_recall(zr__folder_rates *rates)
{
    char key[ZR__MACHINE_KEY_BYTES];
    disk_key(key);
    return zr__machine_recall("disk", key, read_disk_rates, rates);
}

void zr__disk_profile(int local_ranks, zr_profile *profile)
{
    zr__folder_rates rates;
    if (zr__disk_recall(&rates) != ZR_OK) return;
    profile->machine.disk_read_bytes_sec = rates.read / local_ranks;
    profile->machine.disk_write_bytes_sec = rates.write / local_ranks;
    profile->machine.disk_both_bytes_sec = rates.both / local_ranks;
}
