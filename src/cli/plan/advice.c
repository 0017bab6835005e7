/** Advice of `zr plan` on the choices, as text and as JSON. */
#include "cli/plan/choices.h"
#include "cli/plan/offload.h"

#include "base/json/json.h"
#include "base/text/text.h"
#include "train/setup/setup.h"

#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LINE_COLUMNS 78

void cli_print_wrapped(const char *text)
{
    while (*text) {
        size_t length = strcspn(text, "\n");
        if (length > LINE_COLUMNS) {
            for (length = LINE_COLUMNS; length > 1 && text[length] != ' '; length--) continue;
        }
        printf("%.*s\n", (int)length, text);
        text += length;
        while (*text == ' ' || *text == '\n') text++;
    }
}

/** Return the arithmetic intensity: a rank's model FLOPs per byte of traffic, or 0 without traffic. */
static double intensity(const cli_choice *c)
{
    double traffic = cli_traffic_bytes(c->made.report.traffic);
    return traffic > 0 ? c->made.report.flops_model / c->made.report.ranks / traffic : 0;
}

/** Add the stage and the recompute policy of the choice that the advice names. */
static void add_name(zr__text *p, const cli_choices *choices)
{
    char name[CLI_CHOICE_BYTES];
    zr__text_add(p, "stage %d with recompute %s", (int)choices->told->way.stage,
                 cli_choice_name(choices->told, choices->shares_layers, name));
}

/** Add the keys of the choice that the advice names, as command line options to paste. */
static void add_keys(zr__text *p, const cli_choices *choices)
{
    zr__way_options(&choices->told->way, choices->config, &choices->asked, choices->target.ranks, true, " ", p);
    zr__text_add(p, "\n");
}

/** Add the question that the advice answers (zr__question), and the bytes that the choice has in host memory and on
 * disk. */
static void add_question(zr__text *p, const cli_choices *choices)
{
    const zr__trial *made = &choices->told->made;
    zr__text_add(p, "Asked: ");
    zr__add_question(&choices->question, &choices->told->way, p);
    zr__text_add(p, ".");
    if (choices->target.simulated) {
        const zr__question more = {
            .free = {.tensor = true, .groups = true, .every = true, .levels = true, .once = true}};
        const char *keys[ZR__FREE_KEYS];
        const int n = zr__question_keys(&more, &choices->told->way, keys);
        zr__text_add(p, " `zr simulate --search` also frees");
        for (int i = 0; i < n; i++) zr__text_add(p, " %s,", keys[i]);
        zr__text_add(p, " and varies buckets and overlap for speed, so it may name another way.");
    }
    const size_t length = p->length;
    zr__add_ties(choices->answer, " Ties", p);
    if (p->length > length) zr__text_add(p, ".");
    if (made->report.home.optim == ZR_SPACE_DEVICE && made->home == ZR_SPACE_DEVICE) return;
    zr__text_add(p, " The offload takes ");
    zr__add_away(&choices->where, made, p);
    const char *assumed = choices->target.assumed[made->disk_bytes > 0];
    if (assumed[0]) zr__text_add(p, ", at assumed rates: %s", assumed);
    zr__text_add(p, ".");
}

static void add_advised(zr__text *p, const cli_choices *choices)
{
    const cli_choice *c = choices->told;
    const zr_price *price = &c->made.simulation.price;
    const int64_t limit = choices->target.limit_bytes;
    const bool timed = choices->compute_known && choices->link_known;
    zr__text_add(p, "Advice: ");
    add_name(p, choices);
    zr__text_add(p, ", within 2 %% of the fastest%s%s", limit ? " that fits" : "", timed ? "" : " by usual rates");
    const bool memory_known = choices->target.simulated || choices->target.profile.machine.memory_bytes_sec > 0;
    if (choices->compute_known)
        zr__text_add(p, ", %s a step%s", CLI_SECONDS(price->step_sec),
                     !memory_known ? " for products alone"
                     : !timed      ? " without communication"
                                   : "");
    if (choices->compute_known && price->ortho_sec > 0)
        zr__text_add(p, ", %.0f %% of it for Muon's iterations", 100 * price->ortho_sec / price->step_sec);
    if (limit) zr__text_add(p, ", and leaves %s a rank", ZR_SIZE((double)(limit - c->made.needs_bytes)));
    zr__text_add(p, ":");
    add_keys(p, choices);
    add_question(p, choices);
    zr__text_add(p, "\n");
    if (choices->target.ranks == 1) {
        zr__text_add(p, "With one rank there is no traffic; stages differ only in the memory that they need.");
        return;
    }
    zr__text_add(p, "A rank moves %s a step: %sFLOP of the model for each byte (arithmetic intensity).",
                 ZR_SIZE(cli_traffic_bytes(c->made.report.traffic)), ZR_AMOUNT(intensity(c)));
    if (!timed) return;
    /* a step also waits for disks, and for updates by the host's processors */
    const double offload_sec = price->disk_sec + price->host_sec, beside_sec = price->comm_sec + offload_sec;
    const double share = price->step_sec > 0 ? 100 * price->exposed_sec / price->step_sec : 0;
    zr__text_add(p, " %s of communication%s%s is exposed (%.1f %% of the step)%s", CLI_SECONDS(price->exposed_sec),
                 offload_sec > 0 ? " and offload" : "", c->made.roles > 1 ? " and waits for other pipeline ranks" : "",
                 share,
                 share >= 5 && !choices->question.free.batch ? "; a larger micro-batch makes the share smaller."
                 : price->exposed_sec < 0.999 * beside_sec   ? "; the rest is hidden."
                                                             : ".");
}

/** Add a sentence that tells whether a smaller micro-batch or a shorter sequence would fit. */
static zr_status add_batch_help(zr__text *p, const cli_choices *choices)
{
    zr_config less = choices->asked;
    const int64_t batch = less.micro_batch_size, seq = less.data.seq_length, limit = choices->target.limit_bytes;
    int64_t needs = INT64_MAX;
    less.micro_batch_size = 1;
    if (batch > 1) ZR_TRY(cli_choices_least(choices, &less, choices->target.ranks, &needs));
    if (needs <= limit) {
        zr__text_add(p,
                     " With these ranks a smaller train_micro_batch_size_per_gpu fits there (now %lld); --max batch "
                     "finds it.",
                     (long long)batch);
        return ZR_OK;
    }
    less.data.seq_length = 1;
    ZR_TRY(cli_choices_least(choices, &less, choices->target.ranks, &needs));
    if (needs <= limit)
        zr__text_add(p, " With these ranks a smaller data.seq_length helps (now %lld).", (long long)seq);
    else
        zr__text_add(p, " On these ranks not even a batch of 1 fits.");
    return ZR_OK;
}

/** Add the choice that comes nearest to fitting, and ways to make the configuration fit. Called if nothing fits. */
static zr_status add_help(zr__text *p, const cli_choices *choices)
{
    const cli_target *target = &choices->target;
    const cli_more_ranks *more = &choices->more;
    const zr__trial *least = &choices->told->made;
    zr__text_add(p, "Advice: nothing fits %s. The nearest is ", ZR_SIZE((double)target->limit_bytes));
    add_name(p, choices);
    zr__text_add(p, ": %s a rank, with", ZR_SIZE((double)least->needs_bytes));
    add_keys(p, choices);
    add_question(p, choices);
    if (least->needs_bytes <= target->limit_bytes)
        zr__text_add(p, target->disk_bytes > 0 && least->disk_bytes > target->disk_bytes
                            ? " That is more than --disk gives."
                            : " The hosts lack memory for it.");
    zr__text_add(p, "\n");
    const char *bytes = ZR_SIZE((double)more->needs_bytes);
    if (more->fits)
        zr__text_add(p, "With %d ranks stage 3 with recompute unit and as little overlap fits: %s a rank.", more->ranks,
                     bytes);
    else if (more->all)
        zr__text_add(p, "The %d devices of %s are too few: take a larger cluster.", choices->most_ranks,
                     target->cluster.name);
    else if (more->ranks > 0)
        zr__text_add(p, "More ranks do not help: with %d ranks it is %s, nearly all of it not sharded.", more->ranks,
                     bytes);
    char remedy[ZR_OFFLOAD_REMEDY_BYTES];
    zr__train_offload_remedy(&choices->asked, &choices->where, target->limit_bytes, remedy);
    if (remedy[0]) zr__text_add(p, " With %s it fits.", remedy);
    return more->fits || remedy[0] ? ZR_OK : add_batch_help(p, choices);
}

/** Return a sentence on the source of the times. If times are unknown, name the missing rates instead. */
static const char *source_of_times(const cli_choices *choices, char room[192])
{
#define MEASURE_OR_TAKE " Run `zr info --bench` once, or give other rates by --profile or --cluster."
    const cli_target *target = &choices->target;
    const zr_machine *machine = &target->profile.machine;
    if (target->simulated) {
        snprintf(room, 192, "Times are simulated on %s; `zr simulate` says how they come about.", target->cluster.name);
        return room;
    }
    if (!choices->compute_known)
        return "Times are not known: nobody has measured the rates of this machine." MEASURE_OR_TAKE;
    /* Memory bandwidth and the link within this host are measured together. If the bandwidth is known, only the link
     * between hosts is unknown. */
    if (!choices->link_known && machine->memory_bytes_sec > 0)
        return "Times are without communication: the rate of the link between hosts is not known. --cluster NAME "
               "has one.";
    if (!choices->link_known)
        return "Times are of products alone, so a step takes longer: the rates of this machine's memory and link are "
               "not known." MEASURE_OR_TAKE;
    if (machine->memory_bytes_sec <= 0)
        return "Times are of products alone, so a step takes longer: the rate of this machine's memory is not "
               "known." MEASURE_OR_TAKE;
    if (target->efficiency > 0 && target->efficiency < 1) {
        snprintf(room, 192,
                 "Times take %g %% of the profile's FLOP/s (--efficiency), its other rates in full, no latency.",
                 100 * target->efficiency);
        return room;
    }
    if (machine->n_products > 0)
        return "Times use measured rates, without latency: for matrix products the rates of their sizes, for the rest "
               "peak rates. Most runs are slower.";
    return "Times are the profile's peak rates, without latency: no run is faster, and most are slower. --efficiency "
           "0.4 takes 40 % of the peak FLOP/s.";
#undef MEASURE_OR_TAKE
}

/** Return whether a choice reads or writes a disk whose rates are not known. */
static bool uses_unknown_disk(const cli_choices *choices)
{
    for (int i = 0; i < choices->n; i++)
        if (cli_offload_untimed(&choices->choice[i]->made.report, &choices->choice[i]->made.simulation.price))
            return true;
    return false;
}

zr_status cli_advice_print(const cli_choices *choices)
{
    ZR_AUTO(zr__text_clear) zr__text p = {0};
    char room[192];
    ZR_AUTO_FREE char *text = NULL;
    if (choices->advised)
        add_advised(&p, choices);
    else
        ZR_TRY(add_help(&p, choices));
    ZR_TRY(zr__text_take(&p, &text));
    cli_print_wrapped(text);
    cli_print_wrapped(source_of_times(choices, room));
    if (choices->compute_known && cli_target_computed(&choices->target)) cli_print_wrapped(CLI_GPU_REMARK);
    if (choices->compute_known && uses_unknown_disk(choices))
        cli_print_wrapped("They do not contain the time of the disk, whose rates are not known.");
    if (choices->target.here && choices->compute_known)
        cli_print_wrapped(choices->target.profile.facts.own_memory
                              ? "They are for this machine; --cluster NAME, such as dgx-h100x8, takes another one."
                              : "They are for this machine's processor; --cluster NAME, such as dgx-h100x8, takes "
                                "GPUs.");
    if (choices->many_layers)
        printf("Of a model with more than %d layers only the configured choice is planned.\n", CLI_MANY_LAYERS);
    return ZR_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/** Add a number of bytes, or null if there is no memory limit. */
static void add_limited(zr__json_out *out, const cli_choices *choices, const char *key, int64_t bytes)
{
    if (choices->target.limit_bytes)
        zr__json_add(out, key, bytes);
    else
        zr__json_add_json(out, key, NULL);
}

static void add_time(zr__json_out *out, const cli_choices *choices, const cli_choice *c)
{
    const zr_price *price = &c->made.simulation.price;
    const bool compute_known = choices->compute_known, all = compute_known && choices->link_known;
    zr__json_open(out, "time", '{');
    zr__json_add(out, "step_sec", all ? price->step_sec : NAN); /* NAN is written as null */
    zr__json_add(out, "compute_sec", compute_known ? price->compute_sec : NAN);
    zr__json_add(out, "comm_sec", choices->link_known ? price->comm_sec : NAN);
    zr__json_add(out, "exposed_sec", all ? price->exposed_sec : NAN);
    if (price->ortho_sec > 0) zr__json_add(out, "ortho_sec", price->ortho_sec);
    cli_speed_json(out, choices, c);
    const cli_offload cost = cli_offload_cost(&choices->target, &c->made.report, price, cli_choice_tokens(choices, c));
    cli_offload_json(out, &cost);
    zr__json_close(out, '}');
}

static void add_choice_policy(zr__json_out *out, const cli_choice *c)
{
    zr__json_add(out, "stage", (int)c->way.stage, "policy", zr__recompute_name(c->way.policy), "every", c->way.every);
}

static void add_needs(zr__json_out *out, const cli_choices *choices, const cli_choice *c)
{
    zr__json_add(out, "needs", c->made.needs_bytes);
    if (choices->target.limit_bytes)
        zr__json_add_bool(out, "fits", c->made.fits);
    else
        zr__json_add_json(out, "fits", NULL);
}

/** Add the member "keys", an object of the keys of a choice besides its stage and policy. With tensor parallelism,
 * first add the places of checkpoints as planned: the members "partition_activations" and "cpu_checkpointing" and, with
 * checkpoints on disk, "offload". */
static void add_choice_keys(zr__json_out *out, const cli_choices *choices, const cli_choice *c)
{
    const zr__way own = zr__way_of(choices->config);
    zr__way w = c->way;
    w.stage = own.stage;
    w.policy = own.policy;
    w.every = own.every;
    if (choices->shares_layers) {
        w.pieces = own.pieces;
        w.kept = own.kept;
        zr__json_add_bool(out, "partition_activations", c->made.pieces);
        zr__json_add_bool(out, "cpu_checkpointing", c->made.home == ZR_SPACE_HOST);
        if (c->made.home == ZR_SPACE_DISK) zr__json_add(out, "offload", "disk");
    }
    json_auto_t *keys = zr__way_keys(&w, choices->config, choices->config, choices->target.ranks, false);
    char *text = keys ? json_dumps(keys, 0) : NULL;
    if (!text) out->text.failed = true;
    zr__json_add_json(out, "keys", text);
    free(text);
}

/** Add the bytes of a choice that are not on the device. */
static void add_away(zr__json_out *out, const cli_choice *c)
{
    zr__json_add(out, "host_rank_bytes", c->made.report.memory.space[ZR_SPACE_HOST].total_bytes, "host_bytes",
                 c->made.host_bytes, "disk_bytes", c->made.disk_bytes);
}

static void add_choice(zr__json_out *out, const cli_choices *choices, const cli_choice *c)
{
    zr__json_open(out, NULL, '{');
    add_choice_policy(out, c);
    zr__json_add(out, "total", c->made.report.memory.total_bytes);
    add_needs(out, choices, c);
    add_away(out, c);
    add_time(out, choices, c);
    add_choice_keys(out, choices, c);
    zr__json_close(out, '}');
}

static void add_question_json(zr__json_out *out, const cli_choices *choices)
{
    const char *keys[ZR__FREE_KEYS];
    const int n = zr__question_keys(&choices->question, &choices->told->way, keys);
    zr__json_open(out, "question", '{');
    add_limited(out, choices, "memory", choices->target.limit_bytes);
    zr__json_add(out, "step_tokens", cli_choice_tokens(choices, choices->told));
    zr__json_open(out, "free", '[');
    for (int i = 0; i < n; i++) zr__json_add(out, NULL, keys[i]);
    zr__json_close(out, ']');
    zr__json_close(out, '}');
}

void cli_advice_json(zr__json_out *out, const cli_choices *choices)
{
    const cli_more_ranks *more = &choices->more;
    zr__json_add(out, "profile", choices->target.profile.facts.name);
    add_limited(out, choices, "limit", choices->target.limit_bytes);
    add_time(out, choices, choices->own);
    add_needs(out, choices, choices->own);
    zr__json_open(out, "choices", '[');
    for (int i = 0; i < choices->n; i++) add_choice(out, choices, choices->choice[i]);
    zr__json_close(out, ']');
    add_question_json(out, choices);
    zr__json_open(out, "ties", '[');
    for (const cli_choice *t = NULL; (t = zr__next_tie(choices->answer, t));) add_choice(out, choices, t);
    zr__json_close(out, ']');
    zr__json_open(out, choices->advised ? "advice" : "least", '{');
    add_choice_policy(out, choices->told);
    zr__json_add(out, "flops_per_byte", choices->target.ranks > 1 ? intensity(choices->told) : NAN);
    add_limited(out, choices, "left", choices->target.limit_bytes - choices->told->made.needs_bytes);
    add_away(out, choices->told);
    add_choice_keys(out, choices, choices->told);
    zr__json_close(out, '}');
    if (!choices->advised) zr__json_add_json(out, "advice", NULL);
    if (more->ranks > 0) {
        zr__json_open(out, "more_ranks", '{');
        zr__json_add(out, "ranks", more->ranks, "needs", more->needs_bytes);
        zr__json_add_bool(out, "fits", more->fits);
        zr__json_close(out, '}');
    }
}
