//TEST timeout=120
/* Muon: every variant against double precision, from the gradients that the engine computes; and the same bits over
 * stages, layouts, groups, homes, pipelines and, with sums for any number of ranks, over ranks. */
#include "engine/bert_rows.h"
#include "engine/layout_variants.h"
#include "graph/graph.h"
#include "support/long.h"
#include "support/muon_reference.h"

#include <math.h>

static zr_muon_args muon_args(zr_dtype dtype)
{
    zr_muon_args args = zr_muon_defaults();
    args.ortho.dtype = dtype;
    return args;
}

/* Train hidden matrices by Muon, and the rest by AdamW at a tenth of the learning rate. */
static void use_muon(trainer *run, const zr_muon_args *args)
{
    run->layout.optimizer = zr_muon(args);
    run->layout.rest = zr_adamw(0.9, 0.95, 1e-8, 0.1);
    run->layout.rest.lr_factor = 0.1;
}

/* ---- double precision -------------------------------------------------------------------------- */

enum { PARAMS = 40, LONGEST = 57 * 57 * 4, STEPS = 3 };

typedef struct tensors {
    double value[PARAMS][LONGEST];
} tensors;

static tensors start, grads[STEPS], got[STEPS], want;
static double momentum[LONGEST], moment[2][LONGEST];
static char names[PARAMS][ZR_NAME_MAX];
static zr_shape shapes[PARAMS];
static int n_names;

static int number_of(const zr_param_info *param)
{
    int i = 0;
    while (i < n_names && strcmp(names[i], param->name) != 0) i++;
    if (i < n_names) return i;
    assert_in_range(i, 0, PARAMS - 1);
    assert_in_range(zr_shape_elems(&param->whole), 1, LONGEST);
    snprintf(names[i], sizeof names[i], "%s", param->name);
    shapes[i] = param->whole;
    return n_names++;
}

static zr_status collect(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    tensors *t = arg;
    for (int64_t i = 0; i < n; i++) t->value[number_of(param)][first + i] = in[i];
    return ZR_OK;
}

static zr_status read_start(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)run, (void)comm;
    return zr_engine_read(engine, ZR_STATE_PARAM, collect, &start);
}

/* Read the gradient of the last step, and the weights behind it. */
static zr_status read_last(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)comm;
    ZR_TRY(zr_engine_read(engine, ZR_STATE_GRAD, collect, &grads[run->steps - 1]));
    return zr_engine_read(engine, ZR_STATE_PARAM, collect, &got[run->steps - 1]);
}

static bool is_hidden(int p)
{
    return shapes[p].ndim == 2 && strstr(names[p], ".h.");
}

/* Update the hidden matrix p, stored as (inputs, outputs), in step `step` of the learning rate lr. The matrices of
 * queries, keys and values lie side by side. */
static void update_hidden(const zr_muon_args *args, int p, int step, double lr, double clip)
{
    const int64_t rows = shapes[p].dim[0], cols = shapes[p].dim[1];
    const int64_t parts = strstr(names[p], "c_attn") ? 3 : 1, outputs = cols / parts;
    const double mu = args->momentum, own = args->sums ? 1 : 1 - mu;
    static double u[LONGEST], x[LONGEST];
    for (int64_t i = 0; i < rows * cols; i++) {
        const double g = grads[step].value[p][i] * clip;
        momentum[i] = mu * momentum[i] + own * g;
        u[i] = args->nesterov ? mu * momentum[i] + own * g : momentum[i];
    }
    for (int64_t part = 0; part < parts; part++) {
        for (int64_t i = 0; i < rows * outputs; i++) x[i] = u[i / outputs * cols + part * outputs + i % outputs];
        muon_orthogonalize(&args->ortho, rows, outputs, x);
        for (int64_t i = 0; i < rows * outputs; i++) {
            double *w = &want.value[p][i / outputs * cols + part * outputs + i % outputs];
            *w = *w * (1 - lr * args->weight_decay) - lr * zr__muon_factor(args->ortho.scale, outputs, rows) * x[i];
        }
    }
}

static void update_rest(int p, int step, double lr, double clip)
{
    const double decay = shapes[p].ndim >= 2 ? 0.1 : 0;
    for (int64_t i = 0; i < zr_shape_elems(&shapes[p]); i++) {
        const double g = grads[step].value[p][i] * clip;
        double *w = &want.value[p][i], *m = &moment[0][i], *v = &moment[1][i];
        *m = 0.9 * *m + 0.1 * g;
        *v = 0.95 * *v + 0.05 * g * g;
        *w = *w * (1 - lr * decay) -
             lr * (*m / (1 - pow(0.9, step + 1))) / (sqrt(*v / (1 - pow(0.95, step + 1))) + 1e-8);
    }
}

/* Compare the engine's updates of three steps with those in double, for each parameter. */
static void check_variant(const char *name, const zr_muon_args *args, double clip)
{
    double norm[STEPS];
    trainer run = trainer_odd();
    use_muon(&run, args);
    run.clip = clip;
    run.before = read_start;
    run.after = read_last;
    for (run.steps = 1; run.steps <= STEPS; run.steps++) {
        trainer_run(&run);
        norm[run.steps - 1] = run.norm[run.steps - 1];
    }
    for (int p = 0; p < n_names; p++) {
        memset(momentum, 0, sizeof momentum);
        memset(moment, 0, sizeof moment);
        memcpy(want.value[p], start.value[p], sizeof want.value[p]);
        for (int step = 0; step < STEPS; step++) {
            const int64_t n = zr_shape_elems(&shapes[p]);
            const double scale = clip > 0 ? fmin(1, clip / (norm[step] + 1e-6)) : 1;
            static double moved[LONGEST], wanted[LONGEST];
            if (is_hidden(p))
                update_hidden(args, p, step, run.lr, scale);
            else
                update_rest(p, step, 0.1 * run.lr, scale);
            for (int64_t i = 0; i < n; i++) {
                moved[i] = got[step].value[p][i] - start.value[p][i];
                wanted[i] = want.value[p][i] - start.value[p][i];
            }
            const double off = muon_distance(moved, wanted, n);
            /* Weights of norms are 1, of which the updates are a thousandth. Gradients of 34 tokens have a rank of 34,
             * and the iteration enlarges roundings to bf16 in the other directions almost 500 times. */
            const double most = !is_hidden(p) ? 2e-4 : args->ortho.dtype == ZR_BF16 ? 0.25 : 2e-5;
            if (!(off <= most)) fail_msg("%s, step %d: the update of %s is off by %g", name, step, names[p], off);
        }
    }
}

static void variants(void **state)
{
    (void)state;
    zr_muon_args torch = muon_args(ZR_F32), jordan = torch, moonlight = torch, plain = torch, spectral = torch;
    zr_muon_args megatron = torch, narrow = muon_args(ZR_BF16);
    jordan.ortho.eps_added = true;
    jordan.weight_decay = 0;
    moonlight.sums = moonlight.ortho.eps_added = true;
    moonlight.ortho.scale = ZR_MUON_MATCH_RMS_ADAMW;
    plain.nesterov = false;
    plain.momentum = 0.9;
    spectral.ortho.scale = ZR_MUON_SPECTRAL_UNCLAMPED;
    spectral.ortho.steps = 3;
    spectral.ortho.a = 3, spectral.ortho.b = -3.2, spectral.ortho.c = 1.2;
    megatron.nesterov = false;
    megatron.ortho.scale = ZR_MUON_SPECTRAL;
    megatron.ortho.eps = 1e-15;
    check_variant("torch", &torch, 1.0);
    check_variant("Jordan", &jordan, 0);
    check_variant("Moonlight", &moonlight, 0.1);
    check_variant("without Nesterov", &plain, 0);
    check_variant("spectral, unclamped", &spectral, 0);
    check_variant("Megatron", &megatron, 0.1);
    check_variant("torch in bf16", &narrow, 1.0);
    trainer other = trainer_odd(), run = trainer_odd();
    use_muon(&run, &torch);
    trainer_run(&run);
    trainer_run(&other);
    assert_true(run.loss[0] == other.loss[0] && run.loss[1] != other.loss[1]);
}

/* ---- layouts ----------------------------------------------------------------------------------- */

static trainer muon_trainer(int ranks, zr_dtype dtype, int64_t accum, double clip, zr_dtype ortho)
{
    trainer run = layout_trainer(ranks, dtype, accum, clip);
    const zr_muon_args args = muon_args(ortho);
    use_muon(&run, &args);
    return run;
}

static void all_layouts(void **state)
{
    (void)state;
    static const struct {
        int ranks;
        zr_dtype dtype, ortho;
        int64_t accum;
        double clip;
    } runs[] = {{1, ZR_F32, ZR_F32, 1, 0.5},
                {2, ZR_BF16, ZR_BF16, 2, 0.5},
                {3, ZR_F32, ZR_BF16, 1, 0},
                {4, ZR_F16, ZR_F32, 2, 0.5},
                {2, ZR_F32, ZR_F32, 1, 0}};
    const int shares = is_long_run() ? 1 : 5;
    for (int i = 0; i < 5; i++) {
        trainer run = muon_trainer(runs[i].ranks, runs[i].dtype, runs[i].accum, runs[i].clip, runs[i].ortho);
        trainer_run(&run);
        layout_check(&run, i, shares);
    }
}

/* Check that losses, norms and weights have the same bits on 1, 2 and 4 ranks, if sums do. */
static void any_ranks(void **state)
{
    (void)state;
    trainer first = muon_trainer(1, ZR_F32, 4, 0.5, ZR_F32);
    first.layout.rank_free_sums = true;
    trainer_run(&first);
    for (int ranks = 1; ranks <= 4; ranks *= 2)
        for (int stage = 0; stage <= 3; stage++) {
            trainer run = first;
            run.layout.ranks = ranks;
            run.layout.accum = 4 / ranks;
            run.layout.stage = stage;
            trainer_run(&run);
            layout_assert_same(&first, &run, "any ranks");
        }
}

/* Check that the order of micro-batches changes no bit. */
static void orders(void **state)
{
    (void)state;
    trainer first = muon_trainer(2, ZR_F32, 3, 0.5, ZR_BF16);
    trainer_run(&first);
    for (int stage = 0; stage <= 3; stage++) {
        trainer run = first;
        run.layout.stage = stage;
        run.layout.accum_order = stage % 2 ? ZR_ACCUM_LAYER : ZR_ACCUM_AHEAD;
        run.layout.accum_ahead = 2;
        trainer_run(&run);
        layout_assert_same(&first, &run, "another order");
    }
}

static void groups(void **state)
{
    (void)state;
    trainer flat = muon_trainer(4, ZR_BF16, 2, 0.5, ZR_BF16);
    trainer_run(&flat);
    for (int way = 0; way < 6; way++) {
        trainer run = flat;
        run.layout.stage = way < 3 ? way : 3;
        run.layout.host_ranks = 2;
        run.layout.hierarchical = way % 2 == 0;
        run.layout.shard_ranks = way == 2 || way == 3 ? 2 : 0;
        run.layout.hpz_ranks = way == 4 ? 2 : 0;
        run.layout.overlap = way % 3 != 0;
        trainer_run(&run);
        layout_assert_same(&flat, &run, "groups");
    }
}

static void homes(void **state)
{
    (void)state;
    static const zr_space spaces[] = {ZR_SPACE_HOST, ZR_SPACE_DISK};
    trainer first = muon_trainer(2, ZR_BF16, 2, 0.5, ZR_F32);
    trainer_run(&first);
    for (int i = 0; i < 8; i++) {
        trainer run = first;
        run.layout.stage = i % 4;
        run.layout.home.optim = spaces[i / 4];
        if (i % 4 == 3) run.layout.home.param = spaces[i / 4];
        if (i % 4 >= 2) run.layout.home.grad = spaces[i / 4];
        run.layout.home.bucket_elems = i / 4 ? 0 : 320;
        run.layout.save = (zr_save)(i % 4 == 1 ? ZR_SAVE_IN_PLACE : ZR_SAVE_NONE);
        trainer_run(&run);
        layout_assert_same(&first, &run, zr_space_name(spaces[i / 4]));
    }
}

static void pipelines(void **state)
{
    (void)state;
    trainer first = muon_trainer(2, ZR_F32, 4, 0.5, ZR_F32);
    trainer_run(&first);
    for (int stage = 0; stage <= 3; stage++) {
        trainer run = first;
        run.layout.stage = stage;
        run.layout.pipeline = 2;
        run.layout.pipeline_schedule = stage % 2 ? ZR_PIPELINE_1F1B : ZR_PIPELINE_GPIPE;
        trainer_run(&run);
        layout_assert_same(&first, &run, "a pipeline");
    }
}

/* Check BERT, whose pooler and transform are hidden matrices beside AdamW's in the last unit. */
static void encoders(void **state)
{
    (void)state;
    const zr_model model = zr_bert(&bert_post);
    trainer first = muon_trainer(2, ZR_F32, 4, 0.5, ZR_F32);
    first.model = &model;
    first.batch = bert_batch;
    first.count = bert_count;
    first.layout.documents = true;
    first.layout.predictions = BERT_PREDICTIONS;
    first.layout.samples = BERT_SAMPLES;
    trainer_run(&first);
    for (int stage = 0; stage <= 3; stage++) {
        trainer run = first;
        run.layout.stage = stage;
        run.layout.pipeline = 1 + stage % 2;
        run.layout.pipeline_schedule = ZR_PIPELINE_1F1B;
        trainer_run(&run);
        layout_assert_same(&first, &run, "BERT");
    }
    trainer some = first;
    some.layout.hidden = "encoder.*";
    trainer_run(&some);
    assert_true(some.weights != first.weights);
}

/* ---- what is kept and moved ---------------------------------------------------------------------- */

/* Check that hidden matrices need 4 bytes less per parameter than with AdamW, and that directions and results move
 * 2 Psi (N - 1) / N elements of their type. */
static void accounts(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++)
        for (int narrow = 0; narrow < 2; narrow++) {
            trainer run = layout_trainer(4, ZR_BF16, 1, 0.5), muon = run;
            const zr_muon_args args = muon_args(narrow ? ZR_BF16 : ZR_F32);
            const zr_model model = trainer_model(&run);
            zr_device *device = NULL;
            zr_plan *plan = NULL;
            run.layout.stage = stage;
            run.layout.vectors_apart = true; /* the same units */
            muon.layout = run.layout;
            use_muon(&muon, &args);
            run.steps = muon.steps = 1;
            trainer_run(&run);
            trainer_run(&muon);
            assert_int_equal(zr_device_create_cpu(&(zr_device_config){.threads = 1}, &device), ZR_OK);
            if (zr_plan_create(&model, &muon.layout, &device->profile, &plan) != ZR_OK)
                fail_msg("%s", zr_error_message());
            int64_t elems = 0, parts = 0;
            for (int32_t u = 0; u < plan->n_units; u++)
                if (plan->unit[u].orthogonal) elems += plan->unit[u].padded_elems, parts += plan->unit[u].update.count;
            assert_true(elems > 0);
            /* the embedding's table and its vectors are one unit with Muon */
            const int64_t spared =
                run.planned.category_bytes[ZR_CATEGORY_OPTIM] - muon.planned.category_bytes[ZR_CATEGORY_OPTIM];
            assert_in_range(spared, 4 * parts - 4096, 4 * parts + 4096);
            int64_t moved = 0;
            for (int k = 0; k < ZR_TRAFFIC_KINDS; k++)
                if (k == ZR_TRAFFIC_ALL_GATHER || k == ZR_TRAFFIC_REDUCE_SCATTER)
                    moved += muon.traffic.bytes[k] - run.traffic.bytes[k];
            const int64_t wanted = 2 * elems / 4 * 3 * (narrow ? 2 : 4);
            assert_in_range(moved, wanted - 4096, wanted + 4096);
            zr_plan_destroy(&plan);
            zr_device_destroy(&device);
        }
}

/* ---- skipped steps ------------------------------------------------------------------------------- */

enum { HASHED = 4 }; /* momentum, two states of AdamW, parameters */

static uint64_t untrained[2][HASHED];

/* Hash this rank's part of each state. */
static zr_status hash_states(zr_engine *engine, uint64_t hash[HASHED])
{
    for (int s = 0; s < HASHED; s++) {
        hash[s] = 0;
        ZR_TRY(zr_engine_read(engine, s < HASHED - 1 ? ZR_STATE_SLOT + s : ZR_STATE_PARAM, trainer_hash, &hash[s]));
    }
    return ZR_OK;
}

static zr_status hash_untrained(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)run;
    return hash_states(engine, untrained[comm->rank]);
}

/* Take a step that overflows. */
static zr_status check_skipped(trainer *run, zr_engine *engine, zr_comm *comm)
{
    const zr_step_args args = {
        .step = run->steps, .lr = run->lr, .clip = run->clip, .loss_scale = 0x1p40, .batch = trainer_batch, .arg = run};
    uint64_t good[HASHED], kept[HASHED];
    zr_step_result result;
    ZR_TRY(hash_states(engine, good));
    ZR_TRY(zr_engine_step(engine, &args, &result));
    ZR_TRY(zr_engine_flush(engine));
    ZR_TRY(hash_states(engine, kept));
    ZR_CHECK(result.skipped, ZR_ERR_INTERNAL, "the step did not overflow");
    for (int s = 0; s < HASHED; s++) {
        ZR_CHECK(good[s] != untrained[comm->rank][s], ZR_ERR_INTERNAL, "a good step did not change state %d", s);
        ZR_CHECK(good[s] == kept[s], ZR_ERR_INTERNAL, "a skipped step changed state %d", s);
    }
    return ZR_OK;
}

/* Check that a step whose gradient overflows, behind a good one, changes neither weights nor states. */
static void skipped(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        trainer run = muon_trainer(2, ZR_F16, 1, 0.5, ZR_BF16);
        run.scaler = (zr__loss_scaler){.scale = 0x1p8};
        run.layout.stage = stage;
        run.before = hash_untrained;
        run.after = check_skipped;
        run.steps = 1;
        trainer_run(&run);
        assert_true(!run.skipped[0]);
    }
}

/* ---- refused --------------------------------------------------------------------------------------- */

static void refuse(trainer *run, const char *words)
{
    const zr_layout *l = &run->layout;
    const zr_status st = zr_comm_threads_run(l->ranks * l->tensor * l->pipeline, trainer_rank, run);
    assert_true(st == ZR_ERR_CONFIG || st == ZR_ERR_UNSUPPORTED);
    if (!strstr(zr_error_message(), words)) fail_msg("%s", zr_error_message());
}

/* Build GPT-2 with frozen blocks. */
static void build_frozen(zr_graph *graph, const void *config)
{
    const zr_gpt2_config *gpt2 = config;
    const zr_model model = zr_gpt2(gpt2);
    zr_model_build(&model, graph);
    zr_graph_freeze(graph, "h.*");
}

static void refused(void **state)
{
    (void)state;
    trainer run = muon_trainer(1, ZR_F32, 1, 0, ZR_F32);
    run.layout.tensor = 3;
    refuse(&run, "a tensor-parallel rank has a piece of each matrix");
    run = muon_trainer(1, ZR_F32, 1, 0, ZR_F32);
    run.layout.hidden = "*.mlp.*\nnothing.*";
    refuse(&run, "\"nothing.*\" matches no trained matrix; the first is transformer.wte.weight");
    run = muon_trainer(1, ZR_F32, 1, 0, ZR_F32);
    const zr_model frozen = {.name = "frozen", .build = build_frozen, .config = &run.config};
    run.model = &frozen;
    refuse(&run, "no trained matrix in a block");
    run = muon_trainer(1, ZR_F32, 1, 0, ZR_F32);
    run.layout.rest = (zr_optimizer){0};
    refuse(&run, "zr_layout.rest is not set");
}

/* Check that patterns choose the matrices: all of them give the run without patterns, fewer another. */
static void patterns(void **state)
{
    (void)state;
    trainer first = muon_trainer(2, ZR_F32, 1, 0.5, ZR_F32), all = first, some = first;
    all.layout.hidden = "c_attn\n*.c_proj.weight\nc_fc";
    some.layout.hidden = "mlp.*";
    trainer_run(&first);
    trainer_run(&all);
    trainer_run(&some);
    layout_assert_same(&first, &all, "patterns");
    assert_true(some.weights != first.weights);
    trainer stage3 = some;
    stage3.layout.stage = 3;
    trainer_run(&stage3);
    layout_assert_same(&some, &stage3, "some matrices");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variants), cmocka_unit_test(all_layouts), cmocka_unit_test(any_ranks),
        cmocka_unit_test(groups),   cmocka_unit_test(homes),       cmocka_unit_test(pipelines),
        cmocka_unit_test(accounts), cmocka_unit_test(skipped),     cmocka_unit_test(refused),
        cmocka_unit_test(patterns), cmocka_unit_test(orders),      cmocka_unit_test(encoders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
