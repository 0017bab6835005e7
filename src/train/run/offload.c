/** Offload of a run: creates the engine with its folders, and reports the homes of states. */
#include "train/run/offload.h"

#include "base/text/text.h"
#include "engine/engine.h"
#include "train/run/agree.h"
#include "train/run/notes.h"
#include "train/setup/setup.h"

#include <stdio.h>

zr_status zr__run_create_engine(zr__run *r)
{
    zr__folders folders;
    const uint64_t seed = (uint64_t)r->config->train.seed;
    zr_status st = zr__run_agree(r, zr__train_folders(r->config, &folders));
    if (st == ZR_OK)
        st = zr__run_agreed(r, zr_engine_create_on(r->plan, r->device, r->comm, seed, (const char *const *)folders.path,
                                                   folders.n, &r->engine));
    zr__folders_free(&folders);
    return st;
}

/** Write the disk traffic of states on disk to `cost`: bytes per step and, if the disk's rates are known, bytes per
 * day. */
static void disk_cost(const zr__run *r, char cost[ZR_OFFLOAD_NOTE_BYTES])
{
    zr_price price = {0};
    int64_t read_bytes = 0, written_bytes = 0;
    for (int s = 0; s < ZR_SPACES; s++) {
        read_bytes += r->plan->copied[ZR_SPACE_DISK][s];
        written_bytes += r->plan->copied[s][ZR_SPACE_DISK];
    }
    int n = snprintf(cost, ZR_OFFLOAD_NOTE_BYTES, "a step reads %s and writes %s a rank", ZR_SIZE((double)read_bytes),
                     ZR_SIZE((double)written_bytes));
    const zr_machine *machine = &r->device->profile.machine;
    if (zr__run_peak_flops(r) <= 0 || machine->memory_bytes_sec <= 0 || machine->disk_write_bytes_sec <= 0) return;
    if (zr_plan_price(r->plan, &r->device->profile, &price) != ZR_OK || price.step_sec <= 0) return;
    snprintf(cost + n, ZR_OFFLOAD_NOTE_BYTES - (size_t)n, ", so this host writes %s a day at the planned %.3g s a step",
             ZR_SIZE((double)written_bytes * r->comm->local_size * 86400 / price.step_sec), price.step_sec);
}

void zr__run_tell_offload(const zr__run *r)
{
    bool direct = false;
    const char *transfers = zr__engine_transfers(r->engine, &direct);
    char note[ZR_OFFLOAD_NOTE_BYTES], cost[ZR_OFFLOAD_NOTE_BYTES];
    zr__train_offload_note(r->config, &r->plan->profile.facts, note);
    if (note[0]) zr__run_note(r, "%s", note);
    zr__train_offload_words(&r->plan->layout.home, &r->plan->memory, note);
    if (!note[0]) return;
    if (!transfers) {
        zr__run_note(r, "%s", note);
        return;
    }
    disk_cost(r, cost);
    zr__run_note(r, "%s, %s a rank: %s; transfers by %s, %s", note,
                 ZR_SIZE((double)r->plan->memory.space[ZR_SPACE_DISK].total_bytes), cost, transfers,
                 direct ? "past the page cache (direct I/O)"
                        : "through the page cache, since the folder's file system has no direct I/O");
}
