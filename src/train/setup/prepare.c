/** Preparation of a loaded configuration: the model's settings, the tokenizer and the output directory are set from
 * files.
 */
#include "base/file/folder.h"
#include "base/text/text.h"
#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "data/samples/samples.h"
#include "data/pairs/pairs.h"
#include "data/tokenizer/tokenizer.h"
#include "train/control/control.h"
#include "train/family/family.h"
#include "train/family/paths.h"
#include "train/setup/setup.h"
#include "zr/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/** List the dropout probabilities above 0 that come from the directory of model.init. With `in_file`, list those in its
 * config.json; otherwise those that config.json lacks, which have the defaults of transformers. Leave out probabilities
 * that the model's task does not use. */
static void list_dropout(const zr_config *config, const zr__hf_source *source, bool in_file, zr__text *list)
{
    const bool labels = zr__samples_have_labels(zr__config_samples(config));
    const zr_field *of_labels = zr_family_meaning(config->model.family, "label dropout");
    double rate;
    for (const zr_field *field = config->model.family->field; field->key; field++) {
        if (field->role != ZR_FIELD_DROPOUT || field->place == ZR_FIELD_IN_CONFIG) continue;
        if (zr__config_gives_dropout(config, field) || zr__hf_source_has(source, field->key) != in_file) continue;
        memcpy(&rate, config->model.config.bytes + field->offset, sizeof(rate));
        if (rate > 0 && (labels || field != of_labels))
            zr__text_add(list, "%smodel.%s %s", list->length ? ", " : "", field->key, ZR_SHORTEST(rate));
    }
}

/** Add a note on the dropout that comes from the directory of model.init. */
static zr_status note_dropout(zr_config *config)
{
    ZR_AUTO(zr__hf_source_free) zr__hf_source *source = NULL;
    ZR_AUTO(zr__text_clear) zr__text has = {0}, lacks = {0}, note = {0};
    ZR_AUTO_FREE char *text = NULL;
    ZR_TRY(zr__hf_source_read(config->model.init, NULL, &source));
    list_dropout(config, source, true, &has);
    list_dropout(config, source, false, &lacks);
    zr__text_add(&note, "dropout: ");
    if (has.length) zr__text_add(&note, "%s, from %s; ", has.data, ZR_SHOWN(config->model.init));
    if (lacks.length)
        zr__text_add(&note, "%s, the default of transformers, since %s/config.json lacks it; ", lacks.data,
                     ZR_SHOWN(config->model.init));
    zr__text_add(&note, "0 for these keys trains without");
    ZR_TRY(zr__text_take(&note, &text));
    return has.length || lacks.length ? zr__config_note(config, "%s", text) : ZR_OK;
}

/** Fail with `st`, the status of reading the directory of model.init. If the directory is of another kind, the message
 * says which directory or key is wanted. */
static zr_status refuse_init(const char *dir, zr_status st)
{
    char why[512], model[PATH_MAX];
    snprintf(why, sizeof(why), "%s", zr_error_message());
    const bool run = zr__path_is_in(dir, "metrics.jsonl"), has_model = run && zr__path_is_in(dir, "model");
    if (has_model) ZR_TRY(zr__path_join(model, dir, "model"));
    const char *weights = has_model ? model : dir;
    ZR_CHECK(!zr__adapter_is_in(weights), st,
             "model.init: %s has an adapter, not a whole model; give the directory of its base, and the adapter as "
             "model.lora.init=%s; or give the directory OUT that `zr convert %s OUT` makes of the two",
             ZR_SHOWN(dir), ZR_SHOWN(weights), ZR_SHOWN(dir));
    ZR_CHECK(!has_model, st, "model.init: %s is the directory of a run; give that of its weights, %s", ZR_SHOWN(dir),
             ZR_SHOWN(weights));
    ZR_CHECK(!run, st,
             "model.init: %s is the directory of a run without model/; give one of its checkpoints, %s/step-*",
             ZR_SHOWN(dir), ZR_SHOWN(dir));
    ZR_CHECK(!zr__config_is_own(dir), st,
             "model.init: %s has a configuration of zr in its config.json, not a model; give a Hugging Face directory",
             ZR_SHOWN(dir));
    return ZR_FAIL(st, "model.init: %s%s", why,
                   st == ZR_ERR_NOT_FOUND ? "; give a Hugging Face directory on this machine" : "");
}

/** Replace another name of a preset, such as meta-llama/Meta-Llama-3-8B, by the preset's own name, and add a note. */
static zr_status use_own_name(zr_config *config)
{
    const zr_family *family;
    const zr_preset *preset = zr_family_preset_called(config->model.preset, &family);
    if (!preset || strcmp(preset->name, config->model.preset) == 0) return ZR_OK;
    ZR_TRY(zr__config_note(config, "model.preset %s is read as %s, a %s; `zr plan --shapes` lists its sizes",
                           ZR_SHOWN(config->model.preset), preset->name, family->title));
    return zr_config_set(config, "model.preset", preset->name);
}

/** Take the model's settings from the directory of model.init or from model.preset. */
static zr_status settle_model(zr_config *config)
{
    zr__family_model model;
    char origin[96];
    if (config->model.init) {
        const zr_status st = zr__family_read(config->model.init, &model);
        if (st != ZR_OK) return refuse_init(config->model.init, st);
        ZR_CHECK(model.family == config->model.family, ZR_ERR_CONFIG,
                 "model.type is %s, but model_type in %s/config.json is %s; leave out model.type", config->model.type,
                 ZR_SHOWN(config->model.init), model.family->name);
        ZR_TRY(zr__config_adopt(config, &model.config, config->model.init));
        ZR_TRY(note_dropout(config));
    } else if (config->model.preset) {
        ZR_CHECK(zr__family_find_preset(config->model.preset, &model) == ZR_OK, ZR_ERR_CONFIG, "model.preset: %s",
                 zr_error_message());
        ZR_TRY(use_own_name(config));
        ZR_CHECK(model.family == config->model.family, ZR_ERR_CONFIG,
                 "model.type is %s, but the preset %s is of the type %s; leave out model.type", config->model.type,
                 config->model.preset, model.family->name);
        snprintf(origin, sizeof(origin), "preset %s", config->model.preset);
        ZR_TRY(zr__config_adopt(config, &model.config, origin));
    }
    return ZR_OK;
}

/** Take the dropout of the adapter of model.lora.init, as peft does, unless the key is given. */
static zr_status take_dropout(zr_config *config, double dropout)
{
    static const char key[] = "model.lora.dropout";
    if (zr__config_given(config, key)) return ZR_OK;
    ZR_TRY(zr_config_set(config, key, ZR_SHORTEST(dropout)));
    if (!(dropout > 0)) return ZR_OK;
    return zr__config_note(config, "%s: %s, from %s; 0 trains without", key, ZR_SHORTEST(dropout),
                           ZR_SHOWN(config->model.lora_init));
}

/** Take a key from the adapter of model.lora.init. Fail if another value is given. */
static zr_status take_key(zr_config *config, const char *key, bool given_other, const char *value)
{
    ZR_CHECK(!given_other || !zr__config_given(config, key), ZR_ERR_CONFIG,
             "%s differs from the adapter in model.lora.init, which has %s; leave it out", key, value);
    return zr_config_set(config, key, value);
}

static zr_status take_adapter(zr_config *config, const zr__adapter *adapter)
{
    const zr_lora *given = &config->model.lora, *has = &adapter->lora;
    char rank[24];
    zr__text list = {0};
    ZR_AUTO_FREE char *targets = NULL;
    snprintf(rank, sizeof(rank), "%lld", (long long)has->rank);
    ZR_TRY(take_key(config, "model.lora.rank", given->rank != has->rank, rank));
    ZR_TRY(take_key(config, "model.lora.alpha", given->alpha != has->alpha, ZR_SHORTEST(has->alpha)));
    const bool other = given->targets && strcmp(given->targets, has->targets) != 0;
    for (const char *at = has->targets; *at;) {
        const size_t n = strcspn(at, "\n");
        zr__text_add(&list, "%s\"%.*s\"", list.length ? ", " : "[", (int)n, at);
        at += n + (at[n] != '\0');
    }
    zr__text_add(&list, "]");
    ZR_TRY(zr__text_take(&list, &targets));
    ZR_TRY(take_key(config, "model.lora.targets", other, targets));
    return take_dropout(config, has->dropout);
}

/** Take rank, alpha, layers and dropout of adapters from the directory of model.lora.init. */
static zr_status settle_adapter(zr_config *config)
{
    ZR_AUTO(zr__adapter_clear) zr__adapter adapter = {0};
    if (!config->model.lora_init) return ZR_OK;
    zr_status st = zr__adapter_read(config->model.lora_init, &adapter);
    ZR_CHECK(st == ZR_OK, st, "model.lora.init: %s%s", zr_error_message(),
             st == ZR_ERR_NOT_FOUND ? "; give an adapter directory of peft, such as model/ of a run with adapters"
                                    : "");
    return take_adapter(config, &adapter);
}

typedef enum data_kind { DATA_UNKNOWN, DATA_TOKENS, DATA_TEXT } data_kind;

/** Find whether a file has text or tokens, and add a note on irregularities of a text. Ignore a file that cannot be
 * opened: a plan needs no data, and the reader of the data has a better message. */
static zr_status look_at_data(zr_config *config, const char *path, data_kind *kind)
{
    char note[512] = "";
    bool text = false;
    *kind = DATA_UNKNOWN;
    if (!path) return ZR_OK;
    const zr_samples samples = zr__config_samples(config);
    const bool ready = zr__samples_are_masked(samples) && zr__pairs_are_ready(path);
    if (ready || zr__samples_have_labels(samples) || samples == ZR_SAMPLES_ANSWERS) {
        *kind = ready ? DATA_TOKENS : DATA_TEXT;
        return ZR_OK;
    }
    zr_status looked = zr__data_look(path, config->data.as_text, &text, note, sizeof(note));
    if (looked == ZR_ERR_MEMORY) return zr_error_frame(looked, __func__, __FILE__, __LINE__);
    if (looked != ZR_OK) return ZR_OK;
    *kind = text ? DATA_TEXT : DATA_TOKENS;
    return text && note[0] ? zr__config_note(config, "%s", note) : ZR_OK;
}

/** Select the tokenizer of model.init if that directory has one. Its weights are useless with other tokens. */
static zr_status tokenizer_of_init(zr_config *config, bool *found)
{
    ZR_AUTO(zr_tokenizer_close) zr_tokenizer *tokenizer = NULL;
    const char *dir = config->model.init;
    *found = false;
    if (!dir) return ZR_OK;
    const zr_status st = zr_tokenizer_open(dir, &tokenizer);
    if (st == ZR_ERR_NOT_FOUND) return ZR_OK;
    ZR_CHECK(st == ZR_OK, st, "%s (the tokenizer of model.init, since data.tokenizer is not given)",
             zr_error_message());
    *found = true;
    ZR_TRY(zr__config_note(
        config, "data.tokenizer: not given, so the text is read with the tokenizer of model.init, %s", ZR_SHOWN(dir)));
    return zr_config_set(config, "data.tokenizer", dir);
}

/** Select a tokenizer if the data are text and no tokenizer is given: the tokenizer of model.init, or else "bytes".
 * Call this before the vocabulary size is set. Fail if one file has text and another has tokens, since the tokenizer of
 * the tokens is unknown. */
static zr_status default_tokenizer(zr_config *config, bool *bytes)
{
    static const char *const name[] = {[DATA_TOKENS] = "tokens", [DATA_TEXT] = "text"};
    data_kind train, val;
    *bytes = false;
    ZR_TRY(look_at_data(config, config->data.train, &train));
    ZR_TRY(look_at_data(config, zr__config_val_share(config) > 0 ? NULL : config->data.val, &val));
    if (config->data.tokenizer) return ZR_OK;
    ZR_CHECK(train == DATA_UNKNOWN || val == DATA_UNKNOWN || train == val, ZR_ERR_CONFIG,
             "data.train is %s but data.val is %s, and data.tokenizer is not given; set it to the tokenizer that made "
             "the tokens (its directory, or \"bytes\"), or give files of one kind",
             name[train], name[val]);
    if (train != DATA_TEXT) return ZR_OK;
    bool found;
    ZR_TRY(tokenizer_of_init(config, &found));
    if (found) return ZR_OK;
    ZR_CHECK(zr__config_samples(config) == ZR_SAMPLES_NEXT, ZR_ERR_CONFIG,
             "data.tokenizer is missing; text for an encoder needs a tokenizer with the tokens [CLS], [SEP] and "
             "[MASK], so give its directory");
    *bytes = true;
    return zr_config_set(config, "data.tokenizer", "bytes");
}

/** Add a note that a text without a tokenizer is read as bytes and uses only a small part of the model's vocabulary. A
 * vocabulary of up to twice the number of bytes gets no note, since it is assumed to be rounded up. */
static zr_status note_bytes_vocab(zr_config *config)
{
    const int64_t vocab = zr_config_sizes(config).vocabulary;
    if (vocab <= 2 * ZR__BYTES_VOCAB) return ZR_OK;
    return zr__config_note(config,
                           "data.tokenizer: not given, so the text is read as bytes, which use only 256 of the model's "
                           "%lld tokens and train badly. %s",
                           (long long)vocab,
                           config->model.init
                               ? "Give the directory of the tokenizer that belongs to these weights "
                                 "(--data.tokenizer=DIR), or copy its files into the directory model.init"
                               : "Give the directory of a tokenizer (--data.tokenizer=DIR; `zr tokenize --train` makes "
                                 "one), or take a model with vocab_size 256");
}

/** Set the vocabulary size to the tokenizer's number of tokens, if nothing else sets it. */
static zr_status fit_tokenizer(zr_config *config)
{
    ZR_AUTO(zr_tokenizer_close) zr_tokenizer *tokenizer = NULL;
    const char *name = config->data.tokenizer, *key = zr__config_key_of(config, "vocabulary");
    char text[24];
    if (!name || strcmp(name, "bytes") == 0 || zr_config_sizes(config).vocabulary > 0) return ZR_OK;
    zr_status st = zr_tokenizer_open(name, &tokenizer);
    ZR_CHECK(st == ZR_OK, st, "data.tokenizer: %s (needed for %s, which is not given)", zr_error_message(), key);
    snprintf(text, sizeof(text), "%lld", (long long)zr_tokenizer_vocab(tokenizer));
    return zr_config_set(config, key, text);
}

/** Keep the optimizer and scheduler with which the run began, if the file does not give any. */
static zr_status keep_rule(zr_config *config)
{
    char path[PATH_MAX];
    ZR_AUTO(zr_config_destroy) zr_config *run = NULL;
    ZR_TRY(zr__path_join(path, config->train.output_dir, "config.json"));
    if (access(path, R_OK) != 0) return ZR_OK; /* the resume reports the missing run */
    ZR_TRY(zr_config_load(path, NULL, 0, &run));
    return zr__config_keep_rule(config, run);
}

zr_status zr__train_go_on(zr_config *config)
{
    zr__config_go_on(config);
    ZR_TRY(zr__train_own_dir(config));
    ZR_CHECK(config->train.output_dir, ZR_ERR_ARG,
             "--resume needs train.output_dir, the directory of the run to continue; name it (--train.output_dir=DIR)");
    return keep_rule(config);
}

static zr_status default_output_dir(zr_config *config, int64_t unix_sec)
{
    char when[32], path[160];
    struct tm utc;
    time_t now = (time_t)unix_sec;
    if (config->train.output_dir) return ZR_OK;
    ZR_CHECK(gmtime_r(&now, &utc), ZR_ERR_ARG,
             "the clock says %lld seconds since 1970; wanted is a time that has a date", (long long)unix_sec);
    strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &utc);
    const char *model = config->model.preset ? config->model.preset : config->model.type;
    snprintf(path, sizeof(path), "runs/%s-%s", model, when);
    return zr_config_set(config, "train.output_dir", path);
}

/** Return the first step from which on the learning rate is 0. `live` is an earlier step whose rate is not 0. */
static int64_t first_idle_step(const zr_config *config, int64_t live)
{
    int64_t last = config->train.steps; /* its rate is 0 */
    while (last - live > 1) {
        const int64_t middle = live + (last - live) / 2;
        *(zr__lr(config, middle - 1) == 0 ? &last : &live) = middle;
    }
    return last;
}

/** Add a note if the learning rate is 0 in the first steps, as with most schedules of DeepSpeed, or in more than one of
 * the last steps. Such steps change nothing. */
static zr_status note_idle_steps(zr_config *config)
{
    enum { MOST = 1000 };
    const zr_config_scheduler type = config->scheduler.type;
    const bool warms = type == ZR_SCHEDULER_WARMUP || type == ZR_SCHEDULER_WARMUP_DECAY,
               cycles = type == ZR_SCHEDULER_ONE_CYCLE;
    const double highest = warms    ? config->scheduler.warmup_max_lr
                           : cycles ? config->scheduler.cycle_max_lr
                                    : config->optimizer.lr;
    const int64_t steps = config->train.steps;
    char many[64];
    int64_t n = 0;
    while (n < steps && n < MOST && zr__lr(config, n) == 0) n++;
    snprintf(many, sizeof(many), "s 1 to %" PRId64 "%s", n, n == MOST && n < steps ? " and later" : "");
    if (n > 0 && highest == 0)
        ZR_TRY(zr__config_note(config, "%s is 0, so training does not change the weights",
                               config->optimizer.lr == 0 ? "optimizer.params.lr"
                               : warms                   ? "scheduler.params.warmup_max_lr"
                                                         : "scheduler.params.cycle_max_lr"));
    else if (n > 0)
        ZR_TRY(zr__config_note(config, "scheduler: lr is 0 in step%s%s", n > 1 ? many : " 1",
                               warms || type == ZR_SCHEDULER_WARMUP_COSINE
                                   ? ", as in DeepSpeed; warmup_type linear_from_1 avoids it"
                                   : ""));
    if (n == steps || n == MOST || zr__lr(config, steps - 1) != 0) return ZR_OK;
    const int64_t first = first_idle_step(config, n + 1);
    if (first == steps) return ZR_OK;
    return zr__config_note(config, "scheduler: lr is 0 in steps %" PRId64 " to %" PRId64, first, steps);
}

/** Refuse adapters that would begin with weights without the head of the task, since the head would not be trained. */
static zr_status check_adapters(const zr_config *config, const zr__family_model *model)
{
    bool has = false;
    if (!config->model.init || config->model.lora.rank == 0) return ZR_OK;
    ZR_TRY(zr__hf_has_head(config->model.init, model->family, &model->config, &has));
    ZR_CHECK(has, ZR_ERR_UNSUPPORTED,
             "model.lora.rank is %lld, but %s is no %s: adapters cannot begin with another task's weights, since the "
             "new head would not be trained; train without adapters",
             (long long)config->model.lora.rank, ZR_SHOWN(config->model.init),
             zr_family_architecture(model->family, &model->config));
    return ZR_OK;
}

zr_status zr_train_prepare(zr_config *config, int ranks, int64_t unix_sec)
{
    zr__family_model model;
    bool bytes = false;
    ZR_TRY(zr__run_paths_settle(config));
    ZR_TRY(settle_model(config));
    ZR_TRY(settle_adapter(config));
    ZR_TRY(zr__settle_labels(config));
    ZR_TRY(default_tokenizer(config, &bytes));
    ZR_TRY(fit_tokenizer(config));
    ZR_TRY(default_output_dir(config, unix_sec));
    ZR_TRY(zr_config_resolve(config, ranks));
    ZR_TRY(note_idle_steps(config));
    if (bytes) ZR_TRY(note_bytes_vocab(config));
    ZR_TRY(zr__train_model(config, &model));
    return check_adapters(config, &model);
}
