/* Makes directions of hidden matrices orthogonal (zr_muon). A rank iterates the matrices that it owns, in their places
 * in the whole unit, and sets all other elements to zero, so that the sum over the ranks has all results. */
#include "engine/walk.h"

/* Operands of DIRECTION in `use`: the gradient's sums, the optimizer's states, the verdict, the directions. */

zr_status zr__direction(const zr__running *r)
{
    const zr_engine *e = r->engine;
    const zr_graph *g = e->plan->graph[ZR_SCHEDULE_TRAIN];
    const zr_plan_unit *u = &e->plan->unit[r->step->unit];
    const zr_unit_info *info = zr_graph_unit_info(g, r->step->unit);
    const int verdict_at = 1 + u->n_slots, out = verdict_at + 1;
    const zr_verdict *verdict = (const zr_verdict *)zr__at(r, verdict_at);
    const int64_t begin = zr__first(e, &r->step->range);
    int64_t gaps = r->step->range.count; /* number of elements without a direction */
    zr_optimizer momentum = e->plan->optimizer;
    momentum.name = "muon_direction";
    for (int32_t i = info->first_param; i < info->first_param + info->n_params; i++) {
        const zr_param_info *param = zr_graph_param(g, i);
        const zr__span mine = zr__meet(e, param, &r->step->range);
        if (param->grad != ZR_NONE && mine.begin < mine.end) gaps -= mine.end - mine.begin;
    }
    if (gaps > 0 || verdict->skipped)
        ZR_TRY(
            r->device->ops->fill(r->device, zr__at(r, out), 0, zr_dtype_span(r->use[out].dtype, r->step->range.count)));
    for (int32_t i = info->first_param; i < info->first_param + info->n_params && !verdict->skipped; i++) {
        const zr_param_info *param = zr_graph_param(g, i);
        const zr__span mine = zr__meet(e, param, &r->step->range);
        if (param->grad == ZR_NONE || mine.begin >= mine.end) continue;
        void *to = zr__at(r, out) + zr_dtype_span(r->use[out].dtype, mine.begin - begin);
        const bool narrow = r->use[out].dtype != ZR_F32;
        zr_update_args args = {.n = mine.end - mine.begin,
                               .weight = narrow ? NULL : to,
                               .param16 = narrow ? to : NULL,
                               .param_dtype = r->use[out].dtype,
                               .grad = zr__at(r, 0) + zr_dtype_span(r->use->dtype, mine.begin - begin),
                               .grad_dtype = r->use->dtype,
                               .grad_scale = verdict->grad_scale,
                               .step = e->updates + 1,
                               .hyper = momentum.hyper};
        for (int s = 0; s < u->n_slots; s++) args.slot[s] = (float *)zr__at(r, 1 + s) + (mine.begin - begin);
        ZR_TRY(r->device->ops->update(r->device, &momentum, &args));
    }
    return ZR_OK;
}

/* Run the op of a matrix in its place. */
static zr_status iterate(const zr__running *r, const zr_plan_matrix *matrix)
{
    const zr__run *run = &r->engine->ortho[matrix->op];
    const zr_op *op = zr_graph_get_op(r->engine->plan->ortho, matrix->op);
    const zr_type *type = &zr_graph_value(r->engine->plan->ortho, op->in[0])->type;
    const zr_tensor x = {zr__at(r, 0) + zr_dtype_span(type->dtype, matrix->first), type->dtype, type->shape};
    zr_kernel_args args = run->args;
    args.device = r->device;
    args.in = args.out = &x;
    args.scratch = zr__at(r, 1);
    return run->kernel->run(&args);
}

zr_status zr__ortho(const zr__running *r)
{
    const zr_engine *e = r->engine;
    const zr_graph *g = e->plan->graph[ZR_SCHEDULE_TRAIN];
    const zr_plan_unit *u = &e->plan->unit[r->step->unit];
    const int place = e->place[r->step->group];
    if (((const zr_verdict *)zr__at(r, 2))->skipped) return ZR_OK; /* all directions are 0 */
    for (int32_t i = u->first_matrix; i < u->first_matrix + u->n_matrices; i++) {
        const zr_plan_matrix *m = &e->plan->matrix[i];
        const zr_param_info *param = zr_graph_param(g, m->param);
        const zr_op *op = zr_graph_get_op(e->plan->ortho, m->op);
        const zr_type *type = &zr_graph_value(e->plan->ortho, op->in[0])->type;
        const bool beside = op->attr.i[1] > type->shape.dim[1]; /* then all matrices of the parameter have one owner */
        const int64_t elems = zr_shape_elems(beside ? &param->shape : &type->shape);
        if (m->owner == place)
            ZR_TRY(iterate(r, m));
        else if (!beside || m->first == param->unit_offset)
            ZR_TRY(r->device->ops->fill(r->device, zr__at(r, 0) + zr_dtype_span(type->dtype, m->first), 0,
                                        zr_dtype_span(type->dtype, elems)));
    }
    return ZR_OK;
}

zr_status zr__ortho_bind(zr_engine *e)
{
    const zr_graph *g = e->plan->ortho;
    if (!g) return ZR_OK;
    e->ortho = zr_alloc(sizeof *e->ortho * (size_t)(zr_graph_ops(g) + 1));
    ZR_CHECK(e->ortho, ZR_ERR_MEMORY, "no memory to bind %d sizes of matrices", (int)zr_graph_ops(g));
    for (int32_t i = 0; i < zr_graph_ops(g); i++) {
        const zr_op *op = zr_graph_get_op(g, i);
        const zr_type *type = &zr_graph_value(g, op->in[0])->type;
        const zr_tensor x = {e->memory[ZR_SPACE_DEVICE], type->dtype, type->shape}; /* any address that is aligned */
        zr__run *run = &e->ortho[i];
        const zr_kernel *kernel = e->device->ops->kernel(e->device, op->def->name);
        ZR_CHECK(kernel, ZR_ERR_UNSUPPORTED, "the device has no kernel for op %s: give one in zr_device_config.kernels",
                 op->def->name);
        run->args = (zr_kernel_args){.device = e->queue[ZR_STREAM_COMPUTE]->device,
                                     .op = op,
                                     .n_in = 1,
                                     .n_out = 1,
                                     .in = &x,
                                     .out = &x,
                                     .scratch = e->memory[ZR_SPACE_DEVICE],
                                     .runtime = &e->runtime,
                                     .threads = e->plan->profile.facts.threads};
        if (kernel->prepare) ZR_TRY(kernel->prepare(&run->args, &run->args.state));
        run->args.in = run->args.out = NULL;
        run->kernel = kernel;
    }
    return ZR_OK;
}

void zr__ortho_unbind(zr_engine *e)
{
    for (int32_t i = 0; e->ortho && i < zr_graph_ops(e->plan->ortho); i++)
        if (e->ortho[i].kernel && e->ortho[i].kernel->release) e->ortho[i].kernel->release(e->ortho[i].args.state);
    zr_free(e->ortho);
    e->ortho = NULL;
}
