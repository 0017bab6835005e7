/* The task of a Hugging Face directory: its class of transformers, and the labels of a classification. */

#include "base/text/text.h"
#include "checkpoint/hf.h"
#include "config/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Return whether a class is a body of the family, without any head. */
static bool is_body(const zr_family *family, const char *class)
{
    for (const char *const *body = family->names.bodies; body && *body; body++)
        if (strcmp(class, *body) == 0) return true;
    return false;
}

/* Return the class of transformers that config.json names, or NULL. */
static const char *class_of(const json_t *root)
{
    return json_string_value(json_array_get(json_object_get(root, "architectures"), 0));
}

/* Find the task of a class of transformers. Return whether the class is known. */
static bool find_task(const zr_family *family, const char *class, int *task)
{
    *task = 0;
    if (strcmp(class, family->architecture) == 0) return true;
    for (int i = 0; family->task[i].architecture; i++)
        if (strcmp(class, family->task[i].architecture) == 0) {
            *task = i + 1;
            return true;
        }
    return is_body(family, class);
}

static zr_status refuse_class(const char *file, const zr_family *family, const char *class)
{
    char known[512];
    size_t used = (size_t)snprintf(known, sizeof(known), "%s", family->architecture);
    for (int i = 0; family->task[i].architecture && used < sizeof(known); i++)
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
                                 family->task[i + 1].architecture ? ", " : " or ", family->task[i].architecture);
    return ZR_FAIL(ZR_ERR_DATA, "%s: unsupported architecture: architectures is %s; wanted %s", file, ZR_SHOWN(class),
                   known);
}

/* Return the name of label i, or NULL. */
static const char *label_name(const json_t *names, int64_t i)
{
    char id[32];
    snprintf(id, sizeof(id), "%" PRId64, i);
    return json_string_value(json_object_get(names, id));
}

/* Refuse two labels of the same name, since a text's label may be given by its name. */
static zr_status check_names(const char *file, const json_t *names, int64_t n)
{
    json_auto_t *seen = json_object();
    ZR_CHECK(seen, ZR_ERR_MEMORY, "no memory for the names of %" PRId64 " labels", n);
    for (int64_t i = 0; i < n; i++) {
        const char *name = label_name(names, i);
        const json_t *other = json_object_get(seen, name);
        ZR_CHECK(!other, ZR_ERR_DATA,
                 "%s: id2label has the name %s for label %" JSON_INTEGER_FORMAT " and for label %" PRId64
                 "; give each label a name of its own",
                 file, ZR_SHOWN(name), json_integer_value(other), i);
        ZR_CHECK(json_object_set_new(seen, name, json_integer(i)) == 0, ZR_ERR_MEMORY,
                 "no memory for the names of %" PRId64 " labels", n);
    }
    return ZR_OK;
}

/* Count the labels of a classification: the members "0", "1", ... of id2label, or num_labels. As in transformers, there
 * are two labels if both keys are missing. */
static zr_status count_labels(const char *file, const json_t *root, int64_t *labels)
{
    const json_t *names = json_object_get(root, "id2label"), *number = json_object_get(root, "num_labels");
    const bool named = names && !json_is_null(names), given = number && !json_is_null(number);
    ZR_CHECK(!named || json_is_object(names), ZR_ERR_DATA,
             "%s: id2label is not an object; expected names of labels, such as {\"0\": \"no\", \"1\": \"yes\"}", file);
    ZR_CHECK(named || !given || json_is_integer(number), ZR_ERR_DATA,
             "%s: num_labels is not an integer; expected the number of labels", file);
    *labels = named ? (int64_t)json_object_size(names) : given ? json_integer_value(number) : 2;
    for (int64_t i = 0; named && i < *labels; i++)
        ZR_CHECK(label_name(names, i), ZR_ERR_DATA,
                 "%s: id2label has %" PRId64 " members, but no name for label %" PRId64, file, *labels, i);
    if (named) ZR_TRY(check_names(file, names, *labels));
    ZR_CHECK(*labels >= 2, ZR_ERR_DATA,
             "%s: unsupported architecture: the number of labels is %" PRId64
             " (%s); zr classifies with 2 or more labels, and computes no regression",
             file, *labels, named ? "id2label" : "num_labels");
    return ZR_OK;
}

zr_status zr__hf_read_task(const char *file, const json_t *root, const zr_family *family, zr_model_config *config)
{
    const char *class = class_of(root);
    const zr_field *of_task = zr_family_meaning(family, "task"), *of_labels = zr_family_meaning(family, "labels");
    int64_t labels = 0;
    int task = 0;
    if (!family->task) return ZR_OK;
    if (class && !find_task(family, class, &task)) return refuse_class(file, family, class);
    memcpy(config->bytes + of_task->offset, &task, sizeof(task));
    if (!zr__samples_have_labels(zr_family_samples(family, config))) return ZR_OK;
    ZR_TRY(count_labels(file, root, &labels));
    memcpy(config->bytes + of_labels->offset, &labels, sizeof(labels));
    return ZR_OK;
}

zr_status zr__hf_has_head(const char *dir, const zr_family *family, const zr_model_config *config, bool *has)
{
    ZR_AUTO(zr__hf_source_free) zr__hf_source *source = NULL;
    ZR_TRY(zr__hf_source_read(dir, NULL, &source));
    const char *class = class_of(source->keys);
    *has = !family->task || strcmp(class ? class : family->architecture, zr_family_architecture(family, config)) == 0;
    return ZR_OK;
}

/* Remove the source's keys of labels, unless there are two labels. With another number of labels, transformers would
 * give the heads of other tasks that number of outputs. */
static int drop_labels(json_t *root)
{
    static const char *const keys[] = {"id2label", "label2id", "num_labels"};
    const json_t *names = json_object_get(root, "id2label"), *number = json_object_get(root, "num_labels");
    const bool two = (!names || json_object_size(names) == 2) && (!number || json_integer_value(number) == 2);
    int failed = 0;
    for (size_t i = 0; !two && i < sizeof(keys) / sizeof(keys[0]); i++)
        if (json_object_get(root, keys[i])) failed |= json_object_del(root, keys[i]);
    return failed;
}

int zr__hf_write_labels(json_t *root, const zr_family *family, const zr_model_config *config)
{
    int64_t labels;
    if (!family->task) return 0;
    if (!zr__samples_have_labels(zr_family_samples(family, config))) return drop_labels(root);
    memcpy(&labels, config->bytes + zr_family_meaning(family, "labels")->offset, sizeof(labels));
    if ((int64_t)json_object_size(json_object_get(root, "id2label")) == labels) return 0; /* names of the source */
    json_t *names = json_object(), *ids = json_object();
    int failed = !names || !ids;
    for (int64_t i = 0; i < labels; i++) {
        char id[32], name[64];
        snprintf(id, sizeof(id), "%" PRId64, i);
        snprintf(name, sizeof(name), "LABEL_%" PRId64, i);
        failed |= json_object_set_new(names, id, json_string(name));
        failed |= json_object_set_new(ids, name, json_integer(i));
    }
    if (json_object_get(root, "num_labels")) failed |= json_object_del(root, "num_labels");
    return failed | json_object_set_new(root, "id2label", names) | json_object_set_new(root, "label2id", ids);
}

/* Copy the names of n labels into one allocation, behind the array of pointers to them. */
static zr_status copy_names(const json_t *id2label, int64_t n, const char ***names)
{
    size_t bytes = (size_t)n * sizeof(**names);
    for (int64_t i = 0; i < n; i++) bytes += strlen(label_name(id2label, i)) + 1;
    const char **all = zr_alloc(bytes);
    ZR_CHECK(all, ZR_ERR_MEMORY, "no memory for the names of %" PRId64 " labels", n);
    char *text = (char *)(all + n);
    for (int64_t i = 0; i < n; i++) {
        const size_t size = strlen(label_name(id2label, i)) + 1;
        all[i] = memcpy(text, label_name(id2label, i), size);
        text += size;
    }
    *names = all;
    return ZR_OK;
}

zr_status zr__hf_label_names(const char *dir, int64_t n, const char ***names)
{
    ZR_AUTO(zr__hf_source_free) zr__hf_source *source = NULL;
    *names = NULL;
    ZR_TRY(zr__hf_source_read(dir, NULL, &source));
    const json_t *id2label = json_object_get(source->keys, "id2label");
    bool all = (int64_t)json_object_size(id2label) == n;
    for (int64_t i = 0; all && i < n; i++) all = label_name(id2label, i) != NULL;
    return all ? copy_names(id2label, n, names) : ZR_OK;
}
