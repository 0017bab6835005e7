/** Notes at the start of a run, about choices that the configuration left to zr, and about the data. */

#include "train/run/run.h"

#include "config/config.h"
#include "train/host/host.h"

#include <stdio.h>
#include <string.h>

/** Report the memory limit of recompute policy auto, if the run chose this limit itself. */
static void note_limit(const zr__run *r)
{
    const int64_t limit_bytes = r->config->memory.limit_bytes;
    if (!r->settled.given || r->settled.given->memory.limit_bytes == r->config->memory.limit_bytes) return;
    if (limit_bytes > 0)
        zr__run_note(&r->ranks, "activation_checkpointing.policy auto: memory.limit is set to %s, a rank's share of %s",
                     ZR_SIZE((double)limit_bytes),
                     r->plan->profile.facts.own_memory ? "its GPU" : "nine tenths of the free memory of the host");
    else
        zr__run_note(&r->ranks, "activation_checkpointing.policy auto: the free memory of the host is unknown, so "
                                "nothing is recomputed; set memory.limit");
}

/** Report the values chosen for keys that the configuration left open, and how recompute policy auto stores activation
 * checkpoints. */
static void note_choices(const zr__run *r)
{
    if (r->settled.note[0]) zr__run_note(&r->ranks, "%s", r->settled.note);
    if (r->config->recompute.policy != ZR_RECOMPUTE_AUTO || !r->plan->partition_checkpoints ||
        r->config->recompute.partition)
        return;
    zr__run_note(&r->ranks,
                 "activation_checkpointing.policy auto keeps checkpoints in pieces%s, as with partition_activations%s",
                 r->plan->checkpoint_home == ZR_SPACE_HOST ? " on the host" : "",
                 r->plan->checkpoint_home == ZR_SPACE_HOST ? " and cpu_checkpointing" : "");
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
    if (zr__run_peak_flops(r->device, r->plan->layout.dtype) <= 0 || machine->memory_bytes_sec <= 0 ||
        machine->disk_write_bytes_sec <= 0)
        return;
    if (zr_plans_price(&r->plans, &r->device->profile, &price) != ZR_OK || price.step_sec <= 0) return;
    snprintf(cost + n, ZR_OFFLOAD_NOTE_BYTES - (size_t)n, ", so this host writes %s a day at the planned %.3g s a step",
             ZR_SIZE((double)written_bytes * r->ranks.comm->local_size * 86400 / price.step_sec), price.step_sec);
}

/** Report where offloaded states are stored and the disk traffic that this costs, or report that an offload has no
 * effect on this device. */
static void note_offload(const zr__run *r)
{
    bool direct = false;
    const char *transfers = zr__engine_transfers(r->engine, &direct);
    char note[ZR_OFFLOAD_NOTE_BYTES], cost[ZR_OFFLOAD_NOTE_BYTES];
    zr__train_offload_note(r->config, &r->plan->profile.facts, note);
    if (note[0]) zr__run_note(&r->ranks, "%s", note);
    zr__train_offload_words(&r->plan->layout.home, &r->plan->memory, note);
    if (!note[0]) return;
    if (!transfers) {
        zr__run_note(&r->ranks, "%s", note);
        return;
    }
    disk_cost(r, cost);
    zr__run_note(&r->ranks, "%s, %s a rank: %s; transfers by %s, %s", note,
                 ZR_SIZE((double)r->plan->memory.space[ZR_SPACE_DISK].total_bytes), cost, transfers,
                 direct ? "past the page cache (direct I/O)"
                        : "through the page cache, since the folder's file system has no direct I/O");
}

/** Return the bytes of errors of gradients that a rank writes. */
static double error_bytes(const zr_plan *plan)
{
    double bytes = 0;
    for (int32_t u = 0; u < plan->n_units; u++)
        for (int level = 0; level < ZR_ERROR_LEVELS; level++)
            if (plan->unit[u].error[level].buffer != ZR_NONE)
                bytes += 4.0 * (double)plan->unit[u].error[level].range.count;
    return bytes;
}

/** Report how checkpoints are saved, if they are saved asynchronously. */
static void note_saving(const zr__ranks *r, const zr_plans *plans)
{
    const zr_plan *plan = plans->role[plans->own];
    const double errors = error_bytes(plan);
    zr_save_price price;
    if (plan->save == ZR_SAVE_NONE) return;
    if (zr__plans_price_save(plans, &plan->profile, ZR_TRAIN_DISK_BYTES_SEC, &price) != ZR_OK) return;
    if (plan->save == ZR_SAVE_COPY)
        zr__run_note(r,
                     "checkpoints are written asynchronously, during the next steps, from a copy of %s a rank in the "
                     "host's memory",
                     ZR_SIZE((double)price.bytes - errors));
    else
        zr__run_note(r,
                     "checkpoints are written asynchronously, during the next step, %s a rank from where the states "
                     "are: updates wait for the disk%s",
                     ZR_SIZE((double)price.bytes),
                     plan->layout.home.optim == ZR_SPACE_DISK
                         ? ""
                         : " (a memory.limit with room for as much again gives a copy, and no wait)");
    if (errors > 0)
        zr__run_note(r,
                     "zeropp_loco_param: %s a rank of each checkpoint are errors of gradients, written from where they "
                     "are: reductions wait for the disk",
                     ZR_SIZE(errors));
}

/** Report the form of records, skipped lines and cut documents of a text. Other irregularities of the text were already
 * reported when the configuration was completed (train/setup/prepare.c). With `again`, notes about the files have been
 * reported already. */
static void note_lines(const zr__ranks *r, const zr__samples *samples, bool again)
{
    zr_data_info info = {0};
    if (zr__samples_are_open(samples)) info = zr__samples_info(samples);
    /* whether info.note is about skipped lines or lost answers */
    const bool wrong = info.skipped_lines > 0 ? !again : samples->labelled && info.note[0];
    if (info.form && info.form[0] && !again) zr__run_note(r, "%s", info.form);
    if (wrong) zr__run_note(r, "%s", info.note);
    if (info.cut_documents > 0) zr__run_note(r, "%s", info.cut);
}

/** Report how much of data.train is held out, if data.val is a share. */
static void note_held_out(const zr__ranks *r, const zr_config *c, const zr__inputs *inputs)
{
    char words[ZR__HELD_OUT_BYTES];
    if (zr__config_val_share(c) == 0) return;
    const int64_t trained = zr__samples_units(&inputs->train, NULL);
    zr__run_note(r, "%s, of %lld in all", zr__samples_held_out(c, &inputs->val, words),
                 (long long)(trained + zr__samples_units(&inputs->val, NULL)));
}

/** Report keys for reading data that have no effect on these data. */
static void note_keys(const zr__ranks *r, const zr_config *c, const zr__inputs *inputs)
{
    bool answers = false, tokens = false, records = false, talks = false;
    const zr__samples *all[] = {&inputs->train, &inputs->val};
    for (int i = 0; i < 2; i++) {
        if (!zr__samples_are_open(all[i])) continue;
        const zr_data_info info = zr__samples_info(all[i]);
        answers = answers || info.answers_only;
        tokens = tokens || strstr(info.format, "int16") || strstr(info.format, "int32");
        records = records || info.documents > 0 || all[i]->labelled;
        talks = talks || info.sources > 1 || strstr(info.format, "messages"); /* the format of the first */
    }
    const struct {
        const char *key;
        bool given, works;
        const char *wanted;
    } keys[] = {
        {"text_key", strcmp(c->data.text_key, "text") != 0, records, "records"},
        {"bad_lines", c->data.skip_bad_lines, records, "records"},
        {"columns", c->data.columns, records, "records"},
        {"chat_template", c->data.chat_template && strcmp(c->data.chat_template, "auto") != 0, talks, "messages"},
        {"chat_template_kwargs", c->data.chat_template_kwargs, talks, "messages"},
        {"token_bytes", c->data.token_bytes != 0, tokens, "tokens"},
    };
    if (c->data.loss_on != ZR_LOSS_ON_ANSWERS && !answers)
        zr__run_note(r,
                     "data.loss_on has no effect: the data have neither prompts nor messages, so every token counts");
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        if (keys[i].given && !keys[i].works)
            zr__run_note(r, "data.%s has no effect: the data are not %s, but %s", keys[i].key, keys[i].wanted,
                         zr__samples_info(&inputs->train).format);
}

/** Report that the training data consist largely of padding. Rows of several documents would avoid it. */
static void note_padding(const zr__ranks *r, const zr_config *c, const zr__samples *train)
{
    const zr_data_info info = zr__samples_info(train);
    const bool pairs = !train->tokens, packs = pairs && strcmp(info.format, "safetensors") != 0;
    const bool packed = pairs ? c->data.max_samples > 1 : c->data.packing == ZR_PACK_WHOLE;
    if (packed || 1 - info.filled < 0.25 || (pairs && !packs)) return;
    zr__run_note(r,
                 "%.0f %% of the tokens of data.train are padding; %s puts several %s into a %s, each with the losses "
                 "that it has alone",
                 100 * (1 - info.filled), pairs ? "data.max_samples above 1" : "data.packing whole",
                 pairs ? "samples" : "lines", pairs ? "row" : "sample");
}

void zr__run_announce(const zr__run *r)
{
    if (r->ranks.comm->rank == 0 && r->ranks.observer->start)
        r->ranks.observer->start(r->ranks.observer->arg, &r->info);
    if (r->dir.gone[0])
        zr__run_note(&r->ranks, "took over the lock of the directory from a process that no longer exists (%s)",
                     r->dir.gone);
    zr__resume_announce(r);
    note_limit(r);
    note_choices(r);
    note_offload(r);
    note_saving(&r->ranks, &r->plans);
    char limits[ZR__LIMITS_BYTES];
    if (zr__hang_limits(r->watching.hang, limits)[0]) zr__run_note(&r->ranks, "%s", limits);
    int cores = zr__host_cores(), wanted = r->info.threads * r->ranks.comm->local_size;
    if (wanted > cores)
        zr__run_note(&r->ranks, "%d ranks x %d threads are more than %d cores, so training will be slow",
                     r->ranks.comm->local_size, r->info.threads, cores);
    note_lines(&r->ranks, &r->data.inputs.train, false);
    note_held_out(&r->ranks, r->config, &r->data.inputs);
    note_keys(&r->ranks, r->config, &r->data.inputs);
    note_padding(&r->ranks, r->config, &r->data.inputs.train);
    note_lines(&r->ranks, &r->data.inputs.val, zr__config_val_share(r->config) > 0);
    if (r->data.inputs.note[0]) zr__run_note(&r->ranks, "%s", r->data.inputs.note);
    if (r->data.inputs.fresh[0])
        zr__run_note(&r->ranks, "%s has no head of this task; new tensors, which begin with random values: %s",
                     r->config->model.init, r->data.inputs.fresh);
}
