//TEST timeout=120 tsan=1 long=more
/* A model of pre-norm blocks with rotary embeddings, norms of heads, shared key-value heads and SwiGLU: losses, norms
 * and gradients against the double-precision interpreter, with 1, 2 and 3 tensor-parallel ranks; the same bits with
 * each way to keep, recompute and store values; evaluation and decoding. */
#include "support/dtype_array.h"
#include "engine/engine_truth.h"
#include "support/long.h"
#include "base/number/exact.h"

#include <math.h>

enum { T = 12, WIDTH = 24, HEADS = 6, KV_HEADS = 2, D = 12, HIDDEN = 36, WORDS = 61, BLOCKS = 3 };

/* Where the table of a rotary embedding is computed. */
typedef enum tables {
    EACH_BLOCK, /* in each block */
    FIRST_BLOCK /* in the first block, for all blocks */
} tables;

static const zr_init NORMAL = {ZR_INIT_NORMAL, 0.2}, ONE = {ZR_INIT_ONE, 0};

static zr_value gain(zr_graph *g, int64_t n, const char *name, int block)
{
    return zr_param(g, ONE, (zr_shape){1, {n}}, "%s.%d", name, block);
}

static zr_value matrix(zr_graph *g, int64_t rows, int64_t cols, zr_cut cut, const char *name, int block)
{
    return zr_param_cut(g, NORMAL, (zr_shape){2, {rows, cols}}, cut, "%s.%d", name, block);
}

static zr_value product(zr_graph *g, zr_value x, zr_value w)
{
    return zr_linear(g, x, w, ZR_NONE, false);
}

/* Return the heads of the product x w, which are groups of D columns, after each has been normalised and rotated. */
static zr_value turned_heads(zr_graph *g, zr_value x, zr_value w, zr_value norm, zr_value table)
{
    return zr_rotary(g, zr_rmsnorm_rounded(g, product(g, x, w), norm, 1e-5), table);
}

static zr_value attention(zr_graph *g, zr_value x, zr_value table, int block)
{
    const int64_t M = zr_graph_get_spec(g)->tensor;
    /* key-value heads are cut over the ranks if their number allows, else each rank has all */
    const zr_cut columns = {1, 1}, rows = {0, 1}, kv = M > 1 && KV_HEADS % M == 0 ? columns : (zr_cut){0};
    const zr_attention_spec spec = {.heads = HEADS, .kv_heads = KV_HEADS};
    zr_value q =
        turned_heads(g, x, matrix(g, WIDTH, HEADS * D, columns, "q", block), gain(g, D, "q_norm", block), table);
    zr_value k = turned_heads(g, x, matrix(g, WIDTH, KV_HEADS * D, kv, "k", block), gain(g, D, "k_norm", block), table);
    zr_value v = product(g, x, matrix(g, WIDTH, KV_HEADS * D, kv, "v", block));
    return product(g, zr_attend(g, q, k, v, &spec), matrix(g, HEADS * D, WIDTH, rows, "o", block));
}

static zr_value feed_forward(zr_graph *g, zr_value x, int block)
{
    const zr_cut columns = {1, 1}, rows = {0, 1};
    zr_value gate = product(g, x, matrix(g, WIDTH, HIDDEN, columns, "gate", block));
    zr_value up = product(g, x, matrix(g, WIDTH, HIDDEN, columns, "up", block));
    return product(g, zr_swiglu(g, gate, up), matrix(g, HIDDEN, WIDTH, rows, "down", block));
}

/* Build the model. When decoding, the output is the logits. */
static void build(zr_graph *g, const void *config)
{
    const tables where = *(const tables *)config;
    const zr_graph_spec *spec = zr_graph_get_spec(g);
    const zr_shape tokens = {2, {spec->batch, spec->seq}}, table_shape = {2, {WORDS, WIDTH}};
    const bool decode = spec->mode == ZR_MODE_DECODE;
    const zr_rotary_spec rotary = {.kind = ZR_ROTARY_LLAMA3,
                                   .width = D,
                                   .theta = 100,
                                   .factor = 4,
                                   .original = 16,
                                   .low_freq_factor = 1,
                                   .high_freq_factor = 4};
    zr_graph_unit(g, "embed");
    zr_value words = zr_param_cut(g, NORMAL, table_shape, (zr_cut){0, 1}, "words"), table = ZR_NONE;
    zr_value x = zr_embedding(g, zr_input(g, "ids", ZR_I32, tokens), words);
    for (int i = 0; i < BLOCKS; i++) {
        zr_graph_unit(g, "h.%d", i);
        if (where == EACH_BLOCK || i == 0) table = zr_rotary_table(g, &rotary);
        x = zr_add(g, x, attention(g, zr_rmsnorm_rounded(g, x, gain(g, WIDTH, "norm_1", i), 1e-5), table, i));
        x = zr_add(g, x, feed_forward(g, zr_rmsnorm_rounded(g, x, gain(g, WIDTH, "norm_2", i), 1e-5), i));
    }
    zr_graph_unit(g, "head");
    x = zr_rmsnorm_rounded(g, x, gain(g, WIDTH, "norm", BLOCKS), 1e-5);
    zr_value head = zr_param_cut(g, NORMAL, table_shape, (zr_cut){0, 1}, "head");
    if (decode)
        zr_graph_output(g, zr_linear(g, x, head, ZR_NONE, true));
    else
        zr_graph_losses(g, zr_linear_cross_entropy(g, x, head, zr_input(g, "targets", ZR_I32, tokens)));
}

static const tables each = EACH_BLOCK, first = FIRST_BLOCK;
static const zr_model models[] = {{.name = "a table in each block", .build = build, .config = &each},
                                  {.name = "one table", .build = build, .config = &first}};

static trainer small(const zr_model *model, int tensor, zr_sequence sequence)
{
    trainer run = trainer_small(model, 2, T);
    run.config.vocab_size = WORDS;
    run.layout.tensor = tensor;
    run.layout.sequence = sequence;
    run.steps = 3;
    return run;
}

/* ---- results --------------------------------------------------------------------------------- */

/* Check that losses, norms and gradients equal the interpreter's, with and without tensor and sequence parallelism. */
static void truth_of_all_degrees(void **state)
{
    (void)state;
    for (int m = 0; m < 2; m++) {
        trainer one = small(&models[m], 1, ZR_SEQUENCE_OFF);
        truth t = truth_make(&one, 2);
        for (int tensor = 1; tensor <= 3; tensor++)
            for (int sequence = 0; sequence < (tensor > 1 ? 3 : 1); sequence++)
                for (int stage = 0; stage <= 3; stage++) {
                    trainer run = small(&models[m], tensor, (zr_sequence)sequence);
                    if ((stage + sequence + m) % 2 != 0 && !is_long_run()) continue;
                    run.layout.ranks = stage ? 2 : 1;
                    run.layout.batch = stage ? 1 : 2;
                    run.layout.stage = stage;
                    run.steps = 1;
                    truth_check(&t, &run);
                }
        truth_free(&t);
    }
}

/* Check that each way to keep and to recompute values gives the same bits, at any stage and in each type. */
static void same_bits(void **state)
{
    (void)state;
    static const zr_recompute policy[] = {ZR_RECOMPUTE_NONE, ZR_RECOMPUTE_KEEP,  ZR_RECOMPUTE_SELECTIVE,
                                          ZR_RECOMPUTE_UNIT, ZR_RECOMPUTE_PAPER, ZR_RECOMPUTE_AUTO};
    enum { POLICIES = sizeof policy / sizeof *policy };
    for (int way = 0; way < 2 * 4 * 3; way++) {
        const zr_model *model = &models[way % 2];
        const int tensor = (int[]){1, 2, 2, 3}[way / 2 % 4];
        const zr_sequence sequence = (zr_sequence)(way / 2 % 4 == 2 ? ZR_SEQUENCE_KEEP : ZR_SEQUENCE_OFF);
        trainer plain = small(model, tensor, sequence);
        if ((way + way / 8) % 2 != 0 && !is_long_run()) continue;
        plain.layout.dtype = plain.layout.wire_dtype = dtypes[way / 8];
        trainer_run(&plain);
        for (int p = 0; p < POLICIES; p++)
            for (int kept = 0; kept < 3; kept++) {
                trainer run = plain;
                if (kept && (policy[p] == ZR_RECOMPUTE_NONE || policy[p] == ZR_RECOMPUTE_KEEP)) continue;
                if (kept == 1 && tensor == 1) continue;
                run.layout.recompute = policy[p];
                run.layout.recompute_every = policy[p] == ZR_RECOMPUTE_UNIT ? 1 + kept : 1;
                run.layout.limit_bytes = policy[p] == ZR_RECOMPUTE_AUTO ? 1 : 0;
                run.layout.partition_checkpoints = tensor > 1 && kept > 0;
                run.layout.checkpoint_home = kept > 1 ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
                run.layout.stage = (p + kept) % 4;
                run.layout.overlap = kept != 1;
                run.threads = 1 + kept;
                trainer_run(&run);
                assert_memory_equal(run.loss, plain.loss, sizeof run.loss);
                assert_memory_equal(run.norm, plain.norm, sizeof run.norm);
                assert_true(run.weights == plain.weights);
            }
    }
}

/* ---- evaluation and decoding ----------------------------------------------------------------- */

typedef struct sums {
    double whole, decoded;
} sums;

/* Sum the losses of the first row: as a whole, and token by token with the cache. */
static zr_status evaluate_and_decode(trainer *run, zr_engine *engine, zr_comm *comm)
{
    const zr_batch batch = {.step = 5};
    sums *s = run->arg;
    zr_exact sum = {0};
    (void)comm;
    for (int64_t t = 0; t < T; t++) {
        zr_tensor logits;
        double total = 0;
        ZR_TRY(zr_engine_decode(engine, trainer_token(run, 5, 0, t), t, &logits));
        for (int64_t v = 0; v < WORDS; v++) total += exp(array_get(logits.data, logits.dtype, v));
        s->decoded += log(total) - array_get(logits.data, logits.dtype, trainer_token(run, 5, 0, t + 1));
    }
    ZR_TRY(zr_engine_eval(engine, &batch, trainer_batch, run, &sum));
    s->whole = zr__exact_value(&sum);
    return ZR_OK;
}

/* Check that decoding token by token gives the losses of the whole row. */
static void decoding(void **state)
{
    (void)state;
    for (int d = 0; d < N_DTYPES; d++)
        for (int m = 0; m < 2; m++) {
            sums s = {0};
            trainer run = small(&models[m], 1, ZR_SEQUENCE_OFF);
            run.layout.batch = 1;
            run.layout.decode_len = T;
            run.layout.dtype = run.layout.wire_dtype = dtypes[d];
            run.layout.stage = m ? 3 : 0;
            run.after = evaluate_and_decode;
            run.arg = &s;
            trainer_run(&run);
            assert_true(s.whole > 0);
            assert_float_equal(s.decoded, s.whole, (d ? 5e-3 : 1e-5) * s.whole);
        }
}

/* Evaluate the whole batch; all ranks have its losses. */
static zr_status evaluate(trainer *run, zr_engine *engine, zr_comm *comm)
{
    const zr_batch batch = {.step = 5};
    zr_exact sum = {0};
    ZR_TRY(zr_engine_eval(engine, &batch, trainer_batch, run, &sum));
    if (comm->rank == 0) *(double *)run->arg = zr__exact_value(&sum);
    return ZR_OK;
}

/* Check that evaluation gives the same losses at each degree. */
static void evaluation(void **state)
{
    (void)state;
    double one = 0;
    for (int tensor = 1; tensor <= 3; tensor++)
        for (int sequence = 0; sequence < (tensor > 1 ? 2 : 1); sequence++) {
            double sum = 0;
            trainer run = small(&models[tensor % 2], tensor, (zr_sequence)sequence);
            run.steps = 0;
            run.after = evaluate;
            run.arg = &sum;
            trainer_run(&run);
            if (tensor == 1) one = sum;
            assert_true(one > 0);
            assert_float_equal(sum, one, 1e-6 * one);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truth_of_all_degrees),
        cmocka_unit_test(same_bits),
        cmocka_unit_test(decoding),
        cmocka_unit_test(evaluation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
