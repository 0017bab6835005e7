/* The names and the number of labels: from the configuration, from model.init, or from the training data. */
#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "data/labelled/labelled.h"
#include "train/family/samples.h"
#include "train/setup/setup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN_BYTES = 256, MOST_SHOWN = 8 };

/* Print the first names for a message. */
static const char *print(const char *const *name, int64_t n, char out[SHOWN_BYTES])
{
    size_t used = 0;
    out[0] = '\0';
    for (int64_t i = 0; i < n && i < MOST_SHOWN && used < SHOWN_BYTES; i++)
        used += (size_t)snprintf(out + used, SHOWN_BYTES - used, "%s%s", i ? ", " : "", ZR_SHOWN(name[i]));
    if (n > MOST_SHOWN && used < SHOWN_BYTES) snprintf(out + used, SHOWN_BYTES - used, ", ...");
    return out;
}

static zr_status set_number(zr_config *config, int64_t n)
{
    char text[24];
    const int64_t given =
        zr__family_labels(&(zr__family_model){.family = config->model.family, .config = config->model.config});
    ZR_CHECK(n >= 2, ZR_ERR_CONFIG,
             "model.label_names: there is only %" PRId64 " label; a model learns to choose among "
             "two or more",
             n);
    ZR_CHECK(!zr__config_given(config, "model.num_labels") || given == n, ZR_ERR_CONFIG,
             "model.num_labels is %" PRId64 ", but there are %" PRId64
             " names of labels (model.label_names, or the labels of data.train); leave it out",
             given, n);
    snprintf(text, sizeof(text), "%" PRId64, n);
    return zr_config_set(config, "model.num_labels", text);
}

/* Take the number of labels from model.label_names, and refuse two equal names. */
static zr_status count_given(zr_config *config)
{
    json_auto_t *seen = json_object();
    int64_t n = 0;
    ZR_CHECK(seen, ZR_ERR_MEMORY, "no memory for names of labels");
    for (const char *at = config->model.label_names; *at; n++) {
        const size_t its = strcspn(at, "\n");
        json_auto_t *name = json_stringn(at, its);
        ZR_CHECK(name, ZR_ERR_CONFIG, "model.label_names: name %" PRId64 " is not UTF-8", n + 1);
        ZR_CHECK(!json_object_get(seen, json_string_value(name)), ZR_ERR_CONFIG,
                 "model.label_names has the name %s twice; give each label a name of its own",
                 ZR_SHOWN(json_string_value(name)));
        ZR_CHECK(json_object_set_new(seen, json_string_value(name), json_true()) == 0, ZR_ERR_MEMORY,
                 "no memory for names of labels");
        at += its + (at[its] != '\0');
    }
    return set_number(config, n);
}

/* Find whether config.json of model.init has names for the model's labels, other than LABEL_0, LABEL_1 and so on. */
static zr_status named_by_init(const zr_config *config, int64_t labels, bool *named)
{
    ZR_AUTO_FREE const char **names = NULL;
    *named = false;
    if (!config->model.init) return ZR_OK;
    ZR_TRY(zr__hf_label_names(config->model.init, labels, &names));
    for (int64_t i = 0; names && i < labels; i++) {
        char plain[32];
        snprintf(plain, sizeof(plain), "LABEL_%" PRId64, i);
        *named = *named || strcmp(names[i], plain) != 0;
    }
    return ZR_OK;
}

/* Take the names of the labels that the data have. `head` tells whether model.init has outputs for labels. */
static zr_status take_names(zr_config *config, const zr__label_names *found, bool head, int64_t labels)
{
    char shown[SHOWN_BYTES];
    ZR_AUTO(zr__text_clear) zr__text list = {0};
    ZR_AUTO_FREE char *json = NULL;
    print(found->name, found->n, shown);
    ZR_CHECK(found->most < 0, ZR_ERR_DATA,
             "data.train: some labels are names (%s), and others are numbers; give labels of one kind, or name those "
             "with numbers in model.label_names",
             shown);
    ZR_CHECK(!head || found->n == labels, ZR_ERR_DATA,
             "data.train has %" PRId64 " labels (%s), but model.init has %" PRId64
             " without names; give their names in the order of its outputs as model.label_names",
             found->n, shown, labels);
    for (int64_t i = 0; i < found->n; i++) {
        zr__text_add(&list, "%s", i ? ", " : "[");
        zr__text_add_json(&list, found->name[i], (int64_t)strlen(found->name[i]));
    }
    zr__text_add(&list, "]");
    ZR_TRY(zr__text_take(&list, &json));
    ZR_TRY(set_number(config, found->n));
    ZR_TRY(zr_config_set(config, "model.label_names", json));
    return zr__config_note(config, "model.label_names: the %" PRId64 " labels of data.train, sorted: %s%s", found->n,
                           shown, head ? "; those of model.init have no names, and are taken in this order" : "");
}

zr_status zr__settle_labels(zr_config *config)
{
    const zr_samples samples = zr__config_samples(config);
    const zr__family_model model = {.family = config->model.family, .config = config->model.config};
    const int64_t labels = zr__family_labels(&model);
    ZR_AUTO(zr__label_names_free) zr__label_names found = {0};
    bool head = false, named = false;
    if (!zr__samples_have_labels(samples)) return ZR_OK;
    if (config->model.label_names) return count_given(config);
    ZR_TRY(named_by_init(config, labels, &named));
    if (named || !config->data.train) return ZR_OK;
    const zr_status st =
        zr__labelled_names(config->data.train, zr__labelled_kind(samples), config->data.skip_bad_lines, &found);
    const bool tags =
        samples == ZR_SAMPLES_TAGS && st == ZR_ERR_DATA; /* without names, no reader has a better message */
    if (st != ZR_OK) return tags || st == ZR_ERR_MEMORY ? zr_error_frame(st, __func__, __FILE__, __LINE__) : ZR_OK;
    if (config->model.init) ZR_TRY(zr__hf_has_head(config->model.init, model.family, &model.config, &head));
    if (found.n > 0) return take_names(config, &found, head, labels);
    if (head || zr__config_given(config, "model.num_labels") || found.most < labels) return ZR_OK;
    ZR_TRY(set_number(config, found.most + 1));
    return zr__config_note(config, "model.num_labels: %" PRId64 ", since the labels of data.train are 0 to %" PRId64,
                           found.most + 1, found.most);
}
