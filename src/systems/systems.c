/* The systems that are known, and what is the same for all of them. */
#include "systems/systems.h"

#include "base/text/text.h"

#include <inttypes.h>
#include <string.h>

extern const zr__system zr__system_deepspeed, zr__system_fsdp2, zr__system_ddp, zr__system_megatron, zr__system_trainer,
    zr__system_nanotron;

static const zr__system *const systems[] = {&zr__system_deepspeed, &zr__system_fsdp2,   &zr__system_ddp,
                                            &zr__system_megatron,  &zr__system_trainer, &zr__system_nanotron};
enum { SYSTEMS = sizeof(systems) / sizeof(systems[0]) };

const zr__system *zr__system_at(int i)
{
    return i >= 0 && i < SYSTEMS ? systems[i] : NULL;
}

zr_status zr__system_find(const char *name, const zr__system **system)
{
    const char *names[SYSTEMS + 1];
    for (int i = 0; i < SYSTEMS; i++) {
        names[i] = systems[i]->name;
        *system = systems[i];
        if (strcmp(name, names[i]) == 0) return ZR_OK;
    }
    names[SYSTEMS] = "zr";
    const char *near = zr__text_nearest(name, names, SYSTEMS + 1);
    ZR_CHECK(!near, ZR_ERR_ARG, "--system %s: there is no such system; did you mean \"%s\"?", ZR_SHOWN(name), near);
    ZR_AUTO(zr__text_clear) zr__text list = {0};
    for (int i = 0; i <= SYSTEMS; i++) zr__text_add(&list, "%s%s", i ? ", " : "", names[i]);
    ZR_AUTO_FREE char *text = NULL;
    ZR_TRY(zr__text_take(&list, &text));
    return ZR_FAIL(ZR_ERR_ARG, "--system %s: there is no such system; there are %s", ZR_SHOWN(name), text);
}

/* Return the value of an option that counts ranks or stages, at least 1. */
static int64_t degree(const zr__run *run, const char *option)
{
    const double value = option ? zr__with(run, option) : 1;
    return value > 1 ? (int64_t)value : 1;
}

zr__degrees zr__degrees_of(const zr__run *run)
{
    zr__degrees d = {.tp = run->config->parallel.tensor, .pp = run->config->parallel.pipeline};
    d.cp = degree(run, run->system->context_option);
    const bool interleaved = run->config->parallel.schedule == ZR_PIPELINE_INTERLEAVED;
    const int64_t chunks = run->config->parallel.chunks;
    d.chunks = !run->system->chunks_option || !interleaved ? 1 : chunks > 0 ? chunks : 2;
    d.dp = run->ranks / (d.tp * d.pp * d.cp);
    return d;
}

/* Return whether a program gives the system an optimizer of any library. */
static bool takes_optimizers(const zr__system *system)
{
    return strcmp(system->name, "fsdp2") == 0 || strcmp(system->name, "ddp") == 0 ||
           strcmp(system->name, "trainer") == 0;
}

zr_status zr__run_possible(const zr__run *run)
{
    const zr__degrees d = zr__degrees_of(run);
    ZR_CHECK(d.dp >= 1 && d.dp * d.cp * d.tp * d.pp == run->ranks, ZR_ERR_ARG,
             "%" PRId64 " ranks cannot be divided among parallel.tensor %" PRId64 ", parallel.pipeline %" PRId64
             "%s%s %" PRId64 "; give a multiple of their product",
             run->ranks, d.tp, d.pp, d.cp > 1 ? " and " : "",
             d.cp > 1 ? run->system->context_option : ", context parallelism", d.cp);
    ZR_CHECK(run->system->stages >> run->stage & 1, ZR_ERR_UNSUPPORTED, "zero_optimization.stage is %" PRId64 "; %s",
             run->stage, run->system->other_stages);
    const zr_recompute policy = run->config->recompute.policy;
    ZR_CHECK(policy != ZR_RECOMPUTE_AUTO && policy != ZR_RECOMPUTE_KEEP, ZR_ERR_UNSUPPORTED,
             "activation_checkpointing.policy is %s, which zr alone has; give none or unit",
             policy == ZR_RECOMPUTE_AUTO ? "auto" : "keep");
    ZR_CHECK(d.pp == 1 || !run->system->schedules || run->system->schedules >> run->config->parallel.schedule & 1,
             ZR_ERR_UNSUPPORTED, "%s does not have this parallel.schedule; give %s", run->system->title,
             run->system->chunks_option ? "1f1b or interleaved" : "1f1b");
    ZR_CHECK(run->config->optimizer.type != ZR_OPTIMIZER_MUON, ZR_ERR_UNSUPPORTED,
             "optimizer.type is Muon, and zr does not know what a step of it needs in %s; give "
             "--optimizer='{\"type\": \"AdamW\"}', whose states are larger",
             run->system->title);
    ZR_CHECK(run->config->optimizer.type != ZR_OPTIMIZER_ADAMW8BIT || takes_optimizers(run->system), ZR_ERR_UNSUPPORTED,
             "optimizer.type is AdamW8bit, which %s does not have; give --optimizer='{\"type\": \"AdamW\"}', or "
             "--system fsdp2, ddp or trainer, which take the optimizers of torchao and bitsandbytes",
             run->system->title);
    return run->system->check(run);
}
