/* BERT-Large's pre-training by DeepSpeed ("the fastest BERT", May 2020) and by NVIDIA (2019) beside zr's predictions.
 * zr plans the two phases of each training, with sequences of 128 and of 512 tokens, and simulates a step of each. The
 * simulation uses the constants of the ZeRO papers' V100s (src/simulate/clusters.c), which were not fitted to these
 * runs. */
#include "cli/papers/papers.h"
#include "simulate/simulate.h"

#include <math.h>
#include <stdio.h>

/* Bytes that DeepSpeed's fused kernels read and write per fp16 score in the forward pass (csrc/transformer, 2020). The
 * first product writes 2, with the division by sqrt(d). The softmax, which adds the mask, reads 2 and writes 2. Dropout
 * reads 2, writes 2, and writes 1 for its mask. The second product reads 2. NVIDIA's run had separate kernels, as
 * Megatron-LM (CLI_PAPERS_SCORES_BYTES). */
#define FUSED_SCORES_BYTES 13

/* The vocabulary of bert-large-uncased, 30,522 tokens, padded for tensor cores as both systems did. */
#define VOCABULARY 30528

typedef struct phase {
    int tokens, predictions; /* of a sample */
    int batch;               /* samples of a step of all GPUs */
    int micro;               /* maximum samples of a micro-batch */
    double samples;          /* of the whole phase */
} phase;

typedef struct recipe {
    const char *system;
    bool pre_layer_norm;
    bool overlap; /* whether gradients are summed over the GPUs during the backward pass, in a step of one micro-batch;
                     with several, they are summed after the last one (zr_layout.reduce_once) */
    zr_lamb_variant lamb;
    double scores_bytes;
    phase phase[CLI_PAPERS_PHASES];
} recipe;

/* DeepSpeed's recipe: 403 M samples in phase 1 and about 20 M in phase 2 (its logs say 18 to 22 M), with the
 * micro-batches of its configuration files. Gradients are summed after the backward pass. */
static const recipe deepspeed = {.system = "DeepSpeed",
                                 .pre_layer_norm = true,
                                 .lamb = ZR_LAMB_DEEPSPEED,
                                 .scores_bytes = FUSED_SCORES_BYTES,
                                 .phase = {{128, 20, 65536, 64, 403e6}, {512, 80, 32768, 16, 20e6}}};
/* NVIDIA's recipe (DeepLearningExamples, PyTorch, container 19.07): 7,038 and 1,563 steps. The overlap is an
 * assumption: apex's DistributedDataParallel sums gradients during the backward pass, but later scripts of NVIDIA can
 * also sum them afterwards, and the published times do not say which. */
static const recipe nvidia = {.system = "NVIDIA",
                              .overlap = true,
                              .lamb = ZR_LAMB_NVIDIA,
                              .scores_bytes = CLI_PAPERS_SCORES_BYTES,
                              .phase = {{128, 20, 65536, 64, 7038.0 * 65536}, {512, 80, 32768, 8, 1563.0 * 32768}}};

/* Printed times. */
static const struct {
    const recipe *recipe;
    int gpus;
    double minutes;
} trainings[] = {{&deepspeed, 16, 1993}, {&deepspeed, 64, 521}, {&deepspeed, 256, 144}, {&deepspeed, 1024, 44},
                 {&nvidia, 256, 236},    {&nvidia, 1024, 67},   {&nvidia, 1472, 47}};

/* Printed speeds of one V100, for each phase. */
static const struct {
    double samples, tflops;
} kernels[CLI_PAPERS_PHASES] = {{272, 64}, {52, 53}};

/* Number of GPUs of the smallest training run. The speed of one V100 is priced for the micro-batches that a GPU of this
 * run computes in a step. */
#define FEWEST_GPUS 16

/* ---- one phase ---------------------------------------------------------------------------------- */

static zr_status plan_phase(const recipe *r, const phase *p, int gpus, const cli_papers_phase *made,
                            const zr_cluster *cluster, zr_plan **plan)
{
    const zr_bert_config sizes = {.num_hidden_layers = 24,
                                  .num_attention_heads = 16,
                                  .hidden_size = 1024,
                                  .intermediate_size = 4096,
                                  .max_position_embeddings = 512,
                                  .vocab_size = VOCABULARY,
                                  .type_vocab_size = 2,
                                  .hidden_dropout_prob = 0.1,
                                  .attention_probs_dropout_prob = 0.1,
                                  .layer_norm_eps = 1e-12,
                                  .initializer_range = 0.02,
                                  .pre_layer_norm = r->pre_layer_norm};
    const zr_model model = zr_bert(&sizes);
    const zr_profile profile = cli_papers_profile(&cluster->device);
    zr_layout l = zr_layout_default();
    l.ranks = gpus;
    l.dtype = l.wire_dtype = ZR_F16;
    l.batch = made->micro;
    l.accum = made->accum;
    l.seq = p->tokens;
    l.predictions = p->predictions;
    l.samples = 1;
    l.eval = false;
    l.norm_first = true;
    l.reduce_once = true;
    l.overlap = r->overlap;
    l.reduce_bucket_elems = l.gather_bucket_elems = CLI_PAPERS_BUCKET_ELEMS;
    l.host_ranks = gpus % cluster->host_devices == 0 ? cluster->host_devices : 0;
    l.hierarchical = true;
    l.optimizer = zr_lamb(r->lamb, NULL);
    return zr_plan_create(&model, &l, &profile, plan);
}

/* Choose the micro-batches of a GPU for a step of about `p->batch` samples of all GPUs, each at most `p->micro`. The
 * number of steps is the number of the phase's samples divided by the number of a step's samples. */
static cli_papers_phase divide_phase(const phase *p, int gpus)
{
    const double own = (double)p->batch / gpus;
    cli_papers_phase made = {.tokens = p->tokens, .accum = (int)ceil(own / p->micro)};
    made.micro = (int)round(own / made.accum);
    made.steps = p->samples / ((double)made.micro * made.accum * gpus);
    return made;
}

/* Plan and simulate a step of a phase. From version 2.4 (2019) on, NCCL sums over many hosts by trees, and within each
 * host along a chain. zr's two-level collectives with the shorter of ring and tree come nearest to this. */
static zr_status simulate_phase(const recipe *r, const phase *p, int gpus, const zr_cluster *on, cli_papers_phase *made,
                                zr_simulation *simulated)
{
    const zr_simulate_options options = {.scores_bytes = r->scores_bytes,
                                         .product_multiple = CLI_PAPERS_PRODUCT_MULTIPLE};
    zr_cluster cluster = *on;
    zr_plan *plan = NULL;
    zr__cluster_widen(&cluster, gpus);
    cluster.algorithm = ZR_ALGORITHM_AUTO;
    ZR_TRY(plan_phase(r, p, gpus, made, &cluster, &plan));
    zr_status st = zr_simulate(plan, &cluster, &options, simulated, NULL);
    made->memory_bytes = plan->memory.total_bytes;
    made->step_sec = simulated->price.step_sec;
    made->exposed_sec = simulated->price.exposed_sec;
    zr_plan_destroy(&plan);
    return st;
}

/* ---- rows ---------------------------------------------------------------------------------------- */

static cli_papers_row record_row(const recipe *r, int gpus, const zr_cluster *on)
{
    cli_papers_row row = {.source = r->system,
                          .table = "BERT-Large",
                          .gpus = gpus,
                          .tensor = 1,
                          .limit_bytes = on->device.memory_bytes,
                          .mark = CLI_PAPERS_APART};
    snprintf(row.system, sizeof(row.system), "%s", r->system);
    return row;
}

/* Add the speed of one V100 in a phase of DeepSpeed's training: samples per second, and the TFLOP/s of the same
 * number. */
static zr_status add_kernel(cli_papers_rows *rows, int i, const zr_cluster *on)
{
    const phase *p = &deepspeed.phase[i];
    cli_papers_row row = record_row(&deepspeed, 1, on);
    zr_simulation made;
    row.n_phases = 1;
    row.phase[0] = divide_phase(p, FEWEST_GPUS);
    ZR_TRY(simulate_phase(&deepspeed, p, 1, on, &row.phase[0], &made));
    row.batch = row.phase[0].micro;
    row.memory_bytes = row.phase[0].memory_bytes;
    row.unit = "samples/s", row.paper = kernels[i].samples, row.zr = made.samples_sec;
    cli_papers_add(rows, &row, "T %d", p->tokens);
    row.unit = "TFLOP/s", row.paper = kernels[i].tflops, row.zr = made.flops_sec / 1e12;
    row.mark = CLI_PAPERS_SAME_RUN;
    cli_papers_add(rows, &row, "T %d", p->tokens);
    return ZR_OK;
}

static zr_status add_training(cli_papers_rows *rows, const recipe *r, int gpus, double minutes, const zr_cluster *on)
{
    cli_papers_row row = record_row(r, gpus, on);
    row.unit = "minutes", row.paper = minutes;
    for (; row.n_phases < CLI_PAPERS_PHASES; row.n_phases++) {
        const phase *p = &r->phase[row.n_phases];
        cli_papers_phase *made = &row.phase[row.n_phases];
        zr_simulation simulated;
        *made = divide_phase(p, gpus);
        ZR_TRY(simulate_phase(r, p, gpus, on, made, &simulated));
        row.zr += made->steps * made->step_sec / 60;
        if (made->memory_bytes > row.memory_bytes) row.memory_bytes = made->memory_bytes;
    }
    cli_papers_add(rows, &row, "T %d and %d", row.phase[0].tokens, row.phase[1].tokens);
    return ZR_OK;
}

zr_status cli_papers_add_record(cli_papers_rows *rows, const zr_cluster *on)
{
    for (int i = 0; i < CLI_PAPERS_PHASES; i++) ZR_TRY(add_kernel(rows, i, on));
    for (size_t i = 0; i < sizeof(trainings) / sizeof(*trainings); i++)
        ZR_TRY(add_training(rows, trainings[i].recipe, trainings[i].gpus, trainings[i].minutes, on));
    return ZR_OK;
}
