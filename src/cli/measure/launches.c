#include "cli/shell/message.h"
#include "cli/shell/process.h"
#include "cli/measure/launches.h"
#include "train/host/device.h"
#include "train/host/host.h"
#include "train/measure/measure.h"

#include <stdio.h>
#include <math.h>
#include <string.h>

/* ---- measure --------------------------------------------------------------------------------- */

typedef struct launch_job {
    const cli_launches_how *how;
    zr_launch *launch; /* destination of the measured training steps; only rank 0 writes to it */
} launch_job;

/** Return the number of threads of each rank on a host with `local_size` ranks. */
static int threads_of(const launch_job *m, int local_size)
{
    const int share = m->how->threads > 0 ? (int)m->how->threads : zr__host_cores() / local_size;
    return share > 1 ? share : 1;
}

static zr_status measure_launch_rank(zr_comm *comm, void *arg)
{
    const launch_job *m = arg;
    zr_launch launch;
    ZR_AUTO(zr_device_destroy) zr_device *device = NULL;
    ZR_TRY(zr__train_device(ZR_DEVICE_CPU, threads_of(m, comm->local_size), comm->local_rank, &device));
    ZR_TRY(zr__launch_measure(comm, device, m->how->quick, &launch));
    if (comm->rank == 0)
        *m->launch = launch;
    else
        zr__launch_clear(&launch);
    return ZR_OK;
}

zr_status cli_launches_threads(const cli_launches_how *how, cli_launches *launches)
{
    const int cores = zr__host_cores(), wanted = how->quick && cores > 1 ? cores : 2 * cores,
              most = wanted < CLI_LAUNCH_RANKS ? wanted : CLI_LAUNCH_RANKS;
    *launches = (cli_launches){.n = 0};
    for (int ranks = 1; ranks <= most; ranks *= 2) {
        launch_job m = {how, &launches->launch[launches->n]};
        if (!how->quiet) cli_say("measuring training steps on %d rank%s ...", ranks, ranks == 1 ? "" : "s");
        zr_status st = zr__host_room(0, ranks * threads_of(&m, ranks));
        if (st == ZR_OK) st = cli_ranks_run(ranks, measure_launch_rank, &m);
        if (st != ZR_OK) {
            zr__launch_clear(m.launch);
            return st;
        }
        launches->n++;
    }
    return ZR_OK;
}

zr_status cli_launches_world(const cli_launches_how *how, zr_comm *comm, cli_launches *launches)
{
    *launches = (cli_launches){.n = 0};
    launch_job m = {how, &launches->launch[0]};
    if (!how->quiet && comm->rank == 0)
        cli_say("measuring training steps on the %d ranks of this launch ...", comm->size);
    ZR_TRY(zr_comm_agree(comm, zr__host_room(0, threads_of(&m, comm->local_size))));
    ZR_TRY(measure_launch_rank(comm, &m));
    launches->n = comm->rank == 0;
    return ZR_OK;
}

void cli_launches_clear(cli_launches *launches)
{
    for (int i = 0; i < launches->n; i++) zr__launch_clear(&launches->launch[i]);
    launches->n = 0;
}

void cli_launches_remember(const cli_launches *launches, const zr_device_facts *facts)
{
    for (int i = 0; i < launches->n; i++)
        if (zr__launch_remember(facts, &launches->launch[i]) != ZR_OK) {
            cli_say("note: the measurements could not be stored: %s", zr_error_message());
            return;
        }
}

/* ---- print ----------------------------------------------------------------------------------- */

/** Return the bandwidth into a rank, in bytes/s, of the largest all-gather measured within a host. Return NAN if no
 * all-gather was measured. */
static double gather_bytes_sec(const zr_launch *launch)
{
    double bytes = 0, rate = NAN;
    for (int32_t i = 0; i < launch->n_samples; i++) {
        const zr_step_sample *s = &launch->sample[i];
        if (strcmp(s->kind, zr_step_kind_name(ZR_STEP_GATHER)) != 0 || s->across) continue;
        if (s->cost.wire_bytes <= bytes) continue;
        bytes = s->cost.wire_bytes;
        rate = bytes / s->sec;
    }
    return rate;
}

/** Return the sustained bandwidth between hosts, in bytes/s into a rank. Return NAN if there is only one host. */
static double across_bytes_sec(const zr_launch *launch)
{
    return launch->hosts > 1 ? launch->across_bytes_sec : NAN;
}

static const char *giga_text(double bytes_sec, char text[32])
{
    snprintf(text, 32, isnan(bytes_sec) ? "-" : "%.3g", bytes_sec / 1e9);
    return text;
}

void cli_launches_print(const cli_launches *launches)
{
    printf("\ntraining steps of small models, by which `zr simulate --cluster this` prices others\n"
           "  ranks           threads  kinds and sizes  GB/s into a rank  across hosts\n");
    for (int i = 0; i < launches->n; i++) {
        const zr_launch *l = &launches->launch[i];
        char ranks[48], within[32], across[32];
        if (l->hosts > 1)
            snprintf(ranks, sizeof(ranks), "%d on %d hosts", l->ranks, l->hosts);
        else if (l->ranks > 1)
            snprintf(ranks, sizeof(ranks), "%d, %s", l->ranks, l->transport);
        else
            snprintf(ranks, sizeof(ranks), "1");
        printf("  %-16s%7d%17d%18s%14s\n", ranks, l->threads, l->n_samples, giga_text(gather_bytes_sec(l), within),
               giga_text(across_bytes_sec(l), across));
    }
}

void cli_launches_json(zr__json_out *json, const char *key, const cli_launches *launches)
{
    zr__json_open(json, key, '[');
    for (int i = 0; i < launches->n; i++) {
        const zr_launch *l = &launches->launch[i];
        zr__json_break(json, "\n  ");
        zr__json_open(json, NULL, '{');
        zr__json_add(json, "transport", l->transport, "ranks", l->ranks, "hosts", l->hosts, "threads", l->threads);
        zr__json_add_bool(json, "beside", l->beside);
        zr__json_add(json, "samples", l->n_samples, "around_sec", l->around_sec, "gather_bytes_sec",
                     gather_bytes_sec(l), "gather_across_bytes_sec", across_bytes_sec(l));
        zr__json_close(json, '}');
    }
    zr__json_close(json, ']');
}

/* ---- recall ---------------------------------------------------------------------------------- */

/** Return the command that measures training steps on a transport, for a message. */
static const char *command_of(const char *transport)
{
    if (strcmp(transport, "threads") != 0) return "`zr info --bench` under the launcher that starts them";
    return zr_device_cuda_count(NULL) > 0 ? "`zr info --bench --device cpu`" : "`zr info --bench`";
}

zr_status cli_launch_recall(const zr_device_facts *facts, const char *transport, int ranks, int hosts,
                            zr_launch *launch)
{
    zr_status st = zr__launch_recall(facts, transport, ranks, hosts, launch);
    int fewer = 1;
    while (2 * fewer < ranks) fewer *= 2;
    for (; st == ZR_ERR_NOT_FOUND && strcmp(transport, "threads") == 0 && fewer >= 1; fewer /= 2)
        st = zr__launch_recall(facts, transport, fewer, 1, launch);
    if (st == ZR_ERR_NOT_FOUND || st == ZR_ERR_DATA)
        return ZR_FAIL(st, "--cluster this: %s of %d rank%s of %s on %d host%s; run %s",
                       st == ZR_ERR_DATA ? "the file is damaged that holds the measured steps"
                                         : "no training steps were measured",
                       ranks, ranks == 1 ? "" : "s", transport, hosts, hosts == 1 ? "" : "s", command_of(transport));
    return st;
}

zr_status cli_rates_recall(const zr_device_facts *facts, zr_rates *rates)
{
    const zr_status st = zr__rates_recall(facts, rates);
    if (st != ZR_ERR_NOT_FOUND) return st;
    return ZR_FAIL(st, "--cluster this: this machine's processor has not been measured; run %s", command_of("threads"));
}
