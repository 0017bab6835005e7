//TEST timeout=120 long=more tsan=1
/* Model states on disk change no bit. Runs with all kinds of states on the device, in host memory or on disk give the
 * same losses, norms, gradients, weights, evaluations and decoded logits: at every stage, in both layouts, in all
 * orders of micro-batches, with and without clipping, frozen parts, adapters and tensor parallelism, on 1 to 3
 * data-parallel ranks. So do runs with activation checkpoints on disk, whole and in pieces. In each run planned bytes
 * equal measured bytes in every space, and bytes are copied between spaces as planned (trainer.h). The short run has
 * layouts that together contain every pair of choices, the long run also random ones. */
#include "all_states.h"
#include "engine/layout_variants.h"
#include "support/long.h"
#include "base/number/exact.h"
#include "engine/walk.h"

/* ---- layouts ----------------------------------------------------------------------------------- */

/* The choices that make up a layout, in the order of `choice`. ACCUM: one micro-batch, or several in any order. */
enum {
    RANKS,
    STAGE,
    STATES,
    DTYPE,
    ACCUM,
    CLIP,
    OPTIM,
    PARAM,
    GRAD,
    RING,
    SHARE,
    SAVE,
    SUMS,
    MODEL,
    TENSOR,
    APART,
    KEPT, /* checkpoints: none, whole on disk at every unit, at every second unit, and in pieces on disk */
    CHOICES
};
static const int values[CHOICES] = {3, 4, 2, 3, 4, 2, 3, 3, 3, 4, 2, 3, 3, 3, 2, 2, 4};
enum { VALUES = 4 };

typedef struct choice {
    int8_t of[CHOICES];
} choice;

static zr_gpt2_config config;
static zr_model models[3]; /* trained whole, with frozen parts, with adapters */

static const zr_space space_of[] = {ZR_SPACE_DEVICE, ZR_SPACE_HOST, ZR_SPACE_DISK};

/* Return the trainer of a choice, with all states on the device. */
static trainer device_trainer(const choice *c)
{
    static const zr_dtype dtype[] = {ZR_F32, ZR_BF16, ZR_F16};
    trainer run = layout_trainer(1 + c->of[RANKS], dtype[c->of[DTYPE]], c->of[ACCUM] ? 3 : 1, c->of[CLIP] ? 0.5 : 0);
    run.config.n_layer = 2;
    run.config.n_head = 4;
    run.config.n_embd = 36; /* units that need several buckets, and units smaller than a bucket */
    config = run.config;
    for (int i = 0; i < 3; i++) models[i] = zr_gpt2(&config);
    models[1].frozen = "wpe.*\n*.ln_[12].*\nh.1.mlp.c_fc.weight";
    models[2].lora = (zr_lora){.rank = 3, .alpha = 8, .dropout = 0.1};
    run.model = &models[c->of[MODEL]];
    run.layout.tensor = 1 + c->of[TENSOR];
    run.layout.eval = true;
    run.steps = c->of[SAVE] ? 4 : 2;
    run.layout.seq = 8;
    run.layout.decode_len = c->of[TENSOR] ? 0 : 2; /* decoding is built on one rank */
    run.layout.stage = c->of[STAGE];
    run.layout.states = c->of[STATES] ? ZR_STATES_LEAN : ZR_STATES_PAPER;
    run.layout.save = c->of[SAVE] == 0 ? ZR_SAVE_NONE : c->of[SAVE] == 1 ? ZR_SAVE_IN_PLACE : ZR_SAVE_COPY;
    run.layout.reduce_bucket_elems = run.layout.gather_bucket_elems = 3000;
    run.layout.prefetch_elems = c->of[RING] % 2;
    run.layout.rank_free_sums = c->of[SUMS] == 1;
    run.layout.reduce_once = c->of[SUMS] == 2;
    run.layout.recompute = c->of[KEPT] ? ZR_RECOMPUTE_UNIT : ZR_RECOMPUTE_NONE;
    run.layout.recompute_every = c->of[KEPT] == 2 ? 2 : 1;
    run.layout.partition_checkpoints = c->of[KEPT] == 3;
    return run;
}

/* Make the device one with memory of its own. Between it and a disk, bytes then pass through host memory. */
static void set_apart(trainer *run, zr_device *device)
{
    (void)run;
    device->profile.facts.own_memory = true;
}

static trainer away_trainer(const choice *c)
{
    static const struct {
        int64_t elems;
        int buckets;
    } ring[] = {{0, 0}, {1024, 1}, {1024, 2}, {2048, 3}};
    trainer run = device_trainer(c);
    zr_homes *home = &run.layout.home;
    run.layout.accum_order = c->of[ACCUM] ? (zr_accum_order)(c->of[ACCUM] - 1) : ZR_ACCUM_MICRO;
    run.layout.accum_ahead = 2;
    run.layout.checkpoint_home = c->of[KEPT] ? ZR_SPACE_DISK : ZR_SPACE_DEVICE;
    home->optim = space_of[c->of[OPTIM]];
    home->param = space_of[c->of[PARAM]];
    home->grad = space_of[c->of[GRAD]];
    home->optim_share = home->param_share = c->of[SHARE] ? 0.5 : 1;
    home->bucket_elems = ring[c->of[RING]].elems;
    home->buckets = ring[c->of[RING]].buckets;
    home->block_bytes = ZR_DISK_ALIGN;
    home->depth = 2;
    if (c->of[APART]) run.tune = set_apart;
    return run;
}

/* Return whether the planner supports a choice. */
static bool is_possible(const choice *c)
{
    const bool away = c->of[OPTIM] || c->of[PARAM] || c->of[GRAD] || c->of[KEPT],
               disk = c->of[OPTIM] == 2 || c->of[PARAM] == 2;
    if (c->of[PARAM] && c->of[STAGE] != 3) return false;
    if (c->of[TENSOR] && (c->of[RANKS] == 2 || c->of[SUMS] == 1)) return false;
    if (c->of[SAVE] == 2 && disk) return false; /* memory has no room for a second copy of a state */
    if (c->of[SUMS] == 1 && c->of[RANKS] == 2) return false;
    if (c->of[SUMS] == 2 && !c->of[ACCUM]) return false;
    /* ops write whole gradients to the device, where they stay if they are not added to sums */
    if (c->of[GRAD] && c->of[STAGE] < 2 && !c->of[ACCUM] && c->of[SUMS] != 1) return false;
    /* this rank's part of larger sums does not begin at a block of the disk */
    if (c->of[GRAD] == 2 && c->of[RANKS] && (c->of[STAGE] == 0 || c->of[SUMS] == 2)) return false;
    return away;
}

static void describe(const choice *c, char *text, size_t bytes)
{
    static const char *const name[] = {"ranks", "stage", "lean", "type", "accum", "clip",   "optim", "param", "grad",
                                       "ring",  "share", "save", "sums", "model", "tensor", "apart", "kept"};
    size_t used = 0;
    for (int i = 0; i < CHOICES; i++) used += (size_t)snprintf(text + used, bytes - used, "%s %d ", name[i], c->of[i]);
}

/* The results of a rank after its last training step. */
typedef struct seen {
    zr_status grads; /* status of reading gradients */
    uint64_t gradient, logits;
    double loss;                              /* of an evaluation */
    int64_t read_bytes, written_bytes;        /* bytes of the store, from the first training step to the last */
    int64_t copied_from_disk, copied_to_disk; /* as counted by the engine */
} seen;
enum { MOST_RANKS = 6 };

static void count_store(const zr_engine *engine, int sign, seen *to)
{
    if (!engine->store) return;
    const zr__store_facts facts = zr__store_facts_of(engine->store);
    to->read_bytes += sign * facts.read_bytes;
    to->written_bytes += sign * facts.written_bytes;
}

static zr_status before_steps(trainer *run, zr_engine *engine, zr_comm *comm)
{
    count_store(engine, -1, &((seen *)run->arg)[comm->rank]);
    return ZR_OK;
}

/* Read the gradients of the last step, evaluate a batch and decode some tokens. */
static zr_status after_steps(trainer *run, zr_engine *engine, zr_comm *comm)
{
    seen *to = &((seen *)run->arg)[comm->rank];
    zr_batch batch = {.step = 5, .first_row = comm->rank};
    zr_exact sum = {0};
    zr_measured measured;
    count_store(engine, 1, to);
    zr_engine_measured(engine, &measured);
    for (int s = 0; s < ZR_SPACES; s++) {
        to->copied_from_disk += measured.copied[ZR_SPACE_DISK][s];
        to->copied_to_disk += measured.copied[s][ZR_SPACE_DISK];
    }
    to->grads = zr_engine_read(engine, ZR_STATE_GRAD, trainer_hash, &to->gradient);
    ZR_TRY(zr_engine_eval(engine, &batch, trainer_batch, run, &sum));
    to->loss = zr__exact_value(&sum);
    for (int64_t t = 0; t < run->layout.decode_len; t++) {
        zr_tensor logits;
        ZR_TRY(zr_engine_decode(engine, trainer_token(run, 5, 0, t), t, &logits));
        const unsigned char *byte = logits.data;
        const int64_t bytes = zr_dtype_span(logits.dtype, zr_shape_elems(&logits.shape));
        for (int64_t i = 0; i < bytes; i++) to->logits = (to->logits ^ byte[i]) * 0x100000001b3u;
    }
    return ZR_OK;
}

static void look_at(trainer *run, seen *by_rank)
{
    run->before = before_steps;
    run->after = after_steps;
    run->arg = by_rank;
}

static void check_seen(const seen *want, const seen *got, const trainer *run, const char *text)
{
    for (int r = 0; r < run->layout.ranks * run->layout.tensor; r++) {
        const bool same = want[r].grads == got[r].grads && want[r].gradient == got[r].gradient &&
                          want[r].loss == got[r].loss && want[r].logits == got[r].logits;
        if (!same) fail_msg("%s: rank %d reads other gradients, or computes other losses or logits", text, r);
        assert_true(got[r].loss > 0 && (got[r].logits != 0) == (run->layout.decode_len > 0));
        if (run->layout.save != ZR_SAVE_NONE) continue;
        assert_int_equal(got[r].read_bytes, got[r].copied_from_disk);
        assert_int_equal(got[r].written_bytes, got[r].copied_to_disk);
    }
}

static void check_choice(const choice *c)
{
    char text[256];
    trainer want = device_trainer(c), got = away_trainer(c);
    seen of_want[MOST_RANKS] = {{0}}, of_got[MOST_RANKS] = {{0}};
    describe(c, text, sizeof text);
    look_at(&want, of_want);
    look_at(&got, of_got);
    trainer_run(&want);
    trainer_run(&got);
    layout_assert_same(&want, &got, text);
    check_seen(of_want, of_got, &got, text);
    for (int k = 0; k < ZR_TRAFFIC_KINDS; k++) {
        const bool fewer = k == ZR_TRAFFIC_ALL_GATHER && c->of[ACCUM] == 2 && c->of[STAGE] == 3;
        if (fewer && c->of[TENSOR]) continue; /* tensor-parallel ranks make the same number of gathers in all orders */
        assert_int_equal(want.traffic.bytes[k], got.traffic.bytes[k] * (fewer ? want.layout.accum : 1));
    }
    const int64_t *disk = got.planned.space[ZR_SPACE_DISK].category_bytes;
    assert_int_equal(disk[ZR_CATEGORY_OPTIM] > 0, c->of[OPTIM] == 2);
    assert_true(disk[ZR_CATEGORY_PARAM] == 0 || c->of[PARAM] == 2);
    assert_int_equal(disk[ZR_CATEGORY_CHECKPOINT] > 0, c->of[KEPT] > 0);
}

static choice draw(uint64_t *number)
{
    const zr_rng rng = {.seed = 11, .purpose = ZR_RNG_SHUFFLE};
    choice c;
    do
        for (int i = 0; i < CHOICES; i++) c.of[i] = (int8_t)(zr_rng_u32(&rng, (*number)++) % (uint32_t)values[i]);
    while (!is_possible(&c));
    return c;
}

/* Pairs of choices. */
typedef struct pairs {
    bool has[CHOICES][VALUES][CHOICES][VALUES];
} pairs;

/* Add a layout's pairs. Return how many are new. */
static int add_pairs(pairs *p, const choice *c, bool only_count)
{
    int n = 0;
    for (int i = 0; i < CHOICES; i++)
        for (int j = 0; j < i; j++) {
            bool *has = &p->has[i][c->of[i]][j][c->of[j]];
            n += !*has;
            if (!only_count) *has = true;
        }
    return n;
}

/* Check layouts that together contain all pairs of choices that occur in random layouts: repeatedly draw some random
 * layouts and check the layout with the most new pairs. */
static void test_pairs(void **state)
{
    (void)state;
    enum { DRAWS = 4000, AT_A_TIME = 60, MOST = 200 };
    static pairs had, all;
    uint64_t number = 0;
    int left = 0, runs = 0;
    for (int k = 0; k < DRAWS; k++) {
        const choice c = draw(&number);
        left += add_pairs(&all, &c, false);
    }
    for (; left > 0 && runs < MOST; runs++) {
        choice best = draw(&number);
        for (int k = 1; k < AT_A_TIME; k++) {
            const choice c = draw(&number);
            if (add_pairs(&had, &c, true) > add_pairs(&had, &best, true)) best = c;
        }
        left -= add_pairs(&had, &best, false);
        check_choice(&best);
    }
    print_message("%d layouts contain all pairs\n", runs);
    assert_true(left <= 0);
}

static void test_random(void **state)
{
    (void)state;
    uint64_t number = 1 << 20;
    for (int k = 0; k < (is_long_run() ? 500 : 0); k++) {
        const choice c = draw(&number);
        check_choice(&c);
    }
}

/* Check that groups within the data-parallel ranks work with states on disk. */
static void test_groups(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        trainer want = layout_trainer(4, ZR_BF16, 2, 0.5);
        want.layout.stage = way == 0 ? 2 : 3;
        want.layout.host_ranks = 2;
        want.layout.shard_ranks = way == 0 ? 2 : 0;
        want.layout.hpz_ranks = way == 1 ? 2 : 0;
        want.layout.hierarchical = way >= 2;
        want.layout.states = way == 3 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
        want.layout.reduce_bucket_elems = 700;
        trainer_run(&want);
        trainer got = want;
        got.layout.home.optim = ZR_SPACE_DISK;
        got.layout.home.grad = way == 0 ? ZR_SPACE_DEVICE : ZR_SPACE_DISK;
        got.layout.home.param = way == 2 ? ZR_SPACE_DISK : ZR_SPACE_DEVICE;
        got.layout.home.block_bytes = ZR_DISK_ALIGN;
        trainer_run(&got);
        layout_assert_same(&want, &got, "groups, states on disk");
    }
}

/* ---- states between steps ---------------------------------------------------------------------- */

/* Check that the bytes between and after parameters are zero in every state that this rank has on disk. */
static zr_status check_padding(zr_engine *engine, int64_t *padding)
{
    const zr_plan *plan = engine->plan;
    const zr_graph *g = zr__any_graph(plan);
    for (int s = 0; s <= SLOTS; s++)
        for (int32_t u = 0; u < plan->n_units; u++) {
            const zr_state *state = zr__engine_state(plan, u, number_of(s));
            if (state->buffer == ZR_NONE || plan->persistent[state->buffer].space != ZR_SPACE_DISK) continue;
            const zr_unit_info *info = zr_graph_unit_info(g, u);
            zr__window window = zr__window_of(engine, ZR_WINDOW_STATE);
            const int64_t begin = zr__first(engine, &state->range);
            for (int64_t at = begin; at < begin + state->range.count; at++) {
                bool is_param = false;
                for (int32_t p = info->first_param; p < info->first_param + info->n_params; p++) {
                    const zr__span its = zr__meet(engine, zr_graph_param(g, p), &state->range);
                    is_param |= at >= its.begin && at < its.end;
                }
                char *place;
                if (is_param) continue;
                ZR_TRY(zr__window_open(engine, &window, state, at, false, &place));
                for (int64_t b = 0; b < zr_dtype_bytes(state->dtype); b++)
                    ZR_CHECK(place[b] == 0, ZR_ERR_INTERNAL, "padding is not zero");
                ++*padding;
            }
        }
    return ZR_OK;
}

static _Atomic int64_t padding_seen;

/* Fill all states from run->arg, read them again, and check their values and their padding. */
static zr_status fill_all(trainer *run, zr_engine *engine, zr_comm *comm)
{
    states *from = run->arg, *again = calloc(1, sizeof *again);
    int64_t padding = 0;
    ZR_TRY(give_all(run, engine, comm));
    for (int s = 0; s <= SLOTS; s++) {
        ZR_TRY(zr_engine_read(engine, number_of(s), take, again->state[s]));
        for (int64_t i = 0; i < ELEMS; i++)
            ZR_CHECK(again->state[s][i] == 0 || again->state[s][i] == from->state[s][i], ZR_ERR_INTERNAL,
                     "element %lld of state %d was filled with %g, and read as %g", (long long)i, s,
                     (double)from->state[s][i], (double)again->state[s][i]);
    }
    free(again);
    ZR_TRY(check_padding(engine, &padding));
    padding_seen += padding;
    return ZR_OK;
}

static int32_t later_token(void *arg, int64_t step, int64_t row, int64_t t)
{
    const trainer *run = arg;
    trainer plain = *run;
    plain.token = NULL;
    return trainer_token(&plain, step + 2, row, t);
}

enum { ALL_ON_DISK = 4 }; /* a placement at stage 3 only */

/* Return the layout of a placement for a run that is interrupted. Sums are independent of the number of ranks. */
static trainer placed(int ranks, int stage, int way)
{
    static const choice ways[] = {
        {{[OPTIM] = 0}},
        {{[OPTIM] = 2, [RING] = 1}},
        {{[OPTIM] = 2, [STATES] = 1, [RING] = 3}},
        {{[OPTIM] = 1, [RING] = 2}},
        {{[OPTIM] = 2, [PARAM] = 2, [GRAD] = 2, [RING] = 2}},
    };
    choice c = ways[way];
    c.of[DTYPE] = 1;
    c.of[ACCUM] = 0;
    c.of[CLIP] = 1;
    c.of[SUMS] = 1;
    trainer run = away_trainer(&c);
    run.model = NULL; /* GPT-2 of run.config */
    run.layout.ranks = ranks;
    run.layout.batch = 1; /* each micro-batch is a leaf of the tree of sums */
    run.layout.accum = 2 / ranks;
    run.layout.stage = stage;
    run.config.embd_pdrop = run.config.resid_pdrop = run.config.attn_pdrop = 0;
    return run;
}

/* Check that a run that is resumed with another placement, stage and number of ranks continues with the same bits. */
static void test_resume(void **state)
{
    (void)state;
    trainer whole = placed(1, 0, 0);
    states *kept = calloc(1, sizeof *kept), *end = calloc(1, sizeof *end), *wanted = calloc(1, sizeof *wanted);
    whole.steps = 4;
    whole.after = take_all;
    whole.arg = wanted;
    trainer_run(&whole);
    for (int from = 0; from <= ALL_ON_DISK; from++)
        for (int to = 0; to <= ALL_ON_DISK; to++) {
            const int stage = to == ALL_ON_DISK ? 3 : (from + to) % 4;
            trainer first = placed(1 + from % 2, from < 4 ? from : 3, from),
                    second = placed(1 + (from + to) % 2, stage, to);
            first.steps = second.steps = 2;
            first.after = take_all;
            first.arg = kept;
            memset(kept, 0, sizeof *kept);
            trainer_run(&first);
            second.before = fill_all;
            second.arg = kept;
            trainer tokens = second;
            second.token = later_token;
            second.token_arg = &tokens;
            trainer_run(&second);
            assert_true(second.weights == whole.weights);
            for (int i = 0; i < 2; i++)
                assert_true(second.loss[i] == whole.loss[2 + i] && second.norm[i] == whole.norm[2 + i]);
        }
    assert_true(padding_seen > 0);
    free(kept);
    free(end);
    free(wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_resume),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
