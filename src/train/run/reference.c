/** Training steps with given weights and samples, with which other implementations are compared. */
#include "train/run/run.h"

#include "base/json/json_write.h"
#include "comm/comm.h"
#include "plan/list/place.h"
#include "train/control/control.h"
#include "train/host/device.h"
#include "train/setup/setup.h"

#include <math.h>

/** What all ranks share. */
typedef struct shared {
    const zr_config *config;
    const zr_reference *args;
    char *json; /* of rank 0 */
} shared;

/** One rank. */
typedef struct reference {
    const shared *all;
    zr_comm *comm;
    zr__samples samples;
    zr_device *device;
    zr_plans plans;
    const zr_plan *plan; /* of this rank's role */
    zr_engine *engine;
    zr_status failed;  /* status of the first micro-batch that could not be read */
    const char *state; /* name of the state that is being filled or read */
    zr__json_out loss, grad_norm, lr, skipped;
} reference;

static zr_status read_rows(reference *r, const zr_batch *batch, void *const *input)
{
    const int64_t rows = r->all->config->train_batch_size, first = (batch->step - r->all->args->updates) * rows;
    ZR_TRY(zr__samples_begin(&r->samples, first, rows));
    for (int64_t b = 0; b < r->plan->layout.batch; b++) {
        const zr__row row = zr__row_at(r->samples.kind, &r->plan->layout, b, input);
        ZR_TRY(zr__samples_read(&r->samples, first + batch->first_row + b, &row));
        zr__row_count(&r->plan->layout, &row, batch->counted);
    }
    return ZR_OK;
}

static zr_status read_batch(void *arg, const zr_batch *batch, void *const *input)
{
    reference *r = arg;
    const zr_status st = read_rows(r, batch, input);
    if (r->failed == ZR_OK) r->failed = st;
    return st;
}

static zr_status fill(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out)
{
    const reference *r = arg;
    const zr_reference *args = r->all->args;
    return args->fill(args->arg, r->state, param->name, zr_shape_elems(&param->whole), first, n, out);
}

static zr_status pass(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    const reference *r = arg;
    const zr_reference *args = r->all->args;
    return args->read(args->arg, r->state, param->name, zr_shape_elems(&param->whole), first, n, in);
}

/** Fill the states before the first step: parameters last, because the engine then also gathers them. Collective. */
static zr_status fill_states(reference *r)
{
    const int64_t updates = r->all->args->updates;
    const zr_plan *plan = r->plan;
    ZR_CHECK(updates == 0 || (!plan->differences && plan->error_steps == 0), ZR_ERR_UNSUPPORTED,
             "%lld earlier updates were given, but with %s a step needs more than the optimizer's states; leave it out",
             (long long)updates,
             plan->differences ? "quantization.weight_differences" : "zero_optimization.zeropp_loco_param");
    for (int i = 0; i < plan->n_slots && updates > 0; i++) {
        r->state = zr_plan_slot_name(plan, i);
        ZR_TRY(zr_engine_fill(r->engine, ZR_STATE_SLOT + i, fill, r));
    }
    ZR_TRY(zr_engine_resume(r->engine, updates));
    r->state = "weight";
    return zr_engine_fill(r->engine, ZR_STATE_PARAM, r->all->args->fill ? fill : NULL, r);
}

/** Make the plan, the engine and its weights. Collective. */
static zr_status prepare(reference *r)
{
    const zr_config *c = r->all->config;
    ZR_AUTO(zr__folders_free) zr__folders folders = {0};
    zr_status st = zr__samples_take_source(c, c->data.source, &r->samples);
    if (st == ZR_OK)
        st = zr__train_device(c->device, zr__train_threads(c, r->comm->local_size), r->comm->local_rank, &r->device);
    if (st == ZR_OK) st = zr__train_plans(c, r->comm->size, -1, &r->device->profile, &r->plans);
    if (st == ZR_OK) st = zr__train_folders(c, &folders);
    ZR_TRY(zr_comm_agree(r->comm, st));
    r->plans.own = zr__plan_place(r->plans.role[0], ZR_GROUP_PIPELINE, r->comm->rank);
    r->plan = r->plans.role[r->plans.own];
    ZR_TRY(zr_engine_create_on(r->plan, r->device, r->comm, (uint64_t)c->train.seed, (const char *const *)folders.path,
                               folders.n, &r->engine));
    return fill_states(r);
}

/** Add a number to a list with all its digits, or null if it is not finite. */
static void add_number(zr__json_out *list, double x)
{
    if (isfinite(x))
        zr__json_add_as(list, NULL, "%.17g", x);
    else
        zr__json_add_json(list, NULL, NULL);
}

static zr_status step_all(reference *r)
{
    const zr_config *c = r->all->config;
    zr__loss_scaler scaler = zr__loss_scaler_create(c);
    zr__json_open(&r->loss, NULL, '[');
    zr__json_open(&r->grad_norm, NULL, '[');
    zr__json_open(&r->lr, NULL, '[');
    zr__json_open(&r->skipped, NULL, '[');
    for (int64_t step = 0; step < r->all->args->steps; step++) {
        zr_step_result did = {0};
        const zr_step_args args = {.step = r->all->args->updates + step,
                                   .lr = zr__lr(c, zr_engine_updates(r->engine)),
                                   .clip = c->gradient_clipping,
                                   .loss_scale = scaler.scale,
                                   .batch = read_batch,
                                   .arg = r};
        const zr_status st = zr_engine_step(r->engine, &args, &did);
        const bool batch = r->failed != ZR_OK && st == r->failed;
        if (st != ZR_OK && !batch) return st;
        ZR_TRY(zr_comm_agree(r->comm, st));
        zr__loss_scaler_update(&scaler, did.skipped);
        add_number(&r->loss, did.loss);
        add_number(&r->grad_norm, did.grad_norm);
        add_number(&r->lr, args.lr);
        zr__json_add_bool(&r->skipped, NULL, did.skipped);
    }
    zr__json_close(&r->loss, ']');
    zr__json_close(&r->grad_norm, ']');
    zr__json_close(&r->lr, ']');
    zr__json_close(&r->skipped, ']');
    return ZR_OK;
}

static zr_status read_state(reference *r, int state, const char *name)
{
    r->state = name;
    return zr_engine_read(r->engine, state, pass, r);
}

static zr_status read_states(reference *r)
{
    ZR_TRY(read_state(r, ZR_STATE_PARAM, "weight"));
    for (int i = 0; i < r->plan->n_slots; i++) ZR_TRY(read_state(r, ZR_STATE_SLOT + i, zr_plan_slot_name(r->plan, i)));
    const zr_status st = r->all->args->steps > 0 ? read_state(r, ZR_STATE_GRAD, "grad") : ZR_OK;
    return st == ZR_ERR_STATE ? ZR_OK : st; /* the layout keeps no gradients */
}

static zr_status add_list(zr__json_out *out, const char *key, zr__json_out *list)
{
    ZR_AUTO_FREE char *text = NULL;
    ZR_TRY(zr__text_take(&list->text, &text));
    zr__json_add_json(out, key, text);
    return ZR_OK;
}

static zr_status write_json(reference *r, char **json)
{
    ZR_AUTO(zr_graph_destroy) zr_graph *graph = NULL;
    ZR_AUTO(zr__json_drop) zr__json_out out = {0};
    zr__family_model model;
    ZR_TRY(zr__train_model(r->all->config, &model));
    ZR_TRY(zr__param_graph(&model, &graph)); /* a plan's graph may have only the parameters of its role */
    zr__json_open(&out, NULL, '{');
    ZR_TRY(add_list(&out, "loss", &r->loss));
    ZR_TRY(add_list(&out, "grad_norm", &r->grad_norm));
    ZR_TRY(add_list(&out, "lr", &r->lr));
    ZR_TRY(add_list(&out, "skipped", &r->skipped));
    zr__json_open(&out, "shapes", '{');
    for (int32_t p = 0; p < zr_graph_params(graph); p++) {
        const zr_param_info *info = zr_graph_param(graph, p);
        if (info->tile.index > 0) continue;
        zr__json_open(&out, info->name, '[');
        for (int d = 0; d < info->whole.ndim; d++) zr__json_add(&out, NULL, info->whole.dim[d]);
        zr__json_close(&out, ']');
    }
    zr__json_close(&out, '}');
    zr__json_close(&out, '}');
    return zr__text_take(&out.text, json);
}

static void clear(reference *r)
{
    zr_engine_destroy(&r->engine);
    zr__plans_clear(&r->plans);
    zr_device_destroy(&r->device);
    zr__json_drop(&r->loss);
    zr__json_drop(&r->grad_norm);
    zr__json_drop(&r->lr);
    zr__json_drop(&r->skipped);
}

static zr_status run_rank(zr_comm *comm, void *arg)
{
    shared *all = arg;
    ZR_AUTO(clear) reference r = {.all = all, .comm = comm};
    ZR_TRY(prepare(&r));
    ZR_TRY(step_all(&r));
    ZR_TRY(zr_comm_agree(comm, read_states(&r)));
    return comm->rank == 0 ? write_json(&r, &all->json) : ZR_OK;
}

zr_status zr_train_reference(const zr_config *config, int ranks, const zr_reference *args, char **json)
{
    ZR_CHECK(config && args && args->source.read && args->read && json, ZR_ERR_ARG,
             "zr_train_reference was given a NULL pointer");
    ZR_CHECK(args->updates == 0 || (args->updates > 0 && args->fill), ZR_ERR_ARG,
             "zr_train_reference: updates is %lld; wanted 0, or more with `fill`, which gives the states",
             (long long)args->updates);
    zr_config own = *config;
    own.data.train = NULL; /* the samples are those of the caller */
    own.data.source = &args->source;
    shared all = {.config = &own, .args = args};
    zr_status st = zr_comm_threads_run(ranks, run_rank, &all);
    *json = all.json;
    return st;
}
