/* Finds presets of all families by name, also by their names on Hugging Face. For an unknown name, finds similar names.
 */
#include "zr/models.h"
#include "base/text/text.h"

#include <stdio.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

enum { NEAREST = 6, NEAREST_BYTES = 256, NAMES_MOST = 1024, PLAIN_BYTES = 64 };

const zr_preset *zr_family_preset(int i, const zr_family **family)
{
    for (int f = 0; (*family = zr_family_at(f)); f++)
        for (const zr_preset *preset = (*family)->preset; preset && preset->name; preset++)
            if (i-- == 0) return preset;
    return NULL;
}

/* ---- names ------------------------------------------------------------------------------------- */

/* Further names of presets on Hugging Face. Each stands for a model that computes exactly what the preset computes from
 * the same weights. Names of models that differ, such as bert-base-cased with its other vocabulary, must not be added.
 */
static const struct {
    const char *name, *preset;
} also[] = {{"gpt2-small", "gpt2-124m"},
            {"gpt2-117m", "gpt2-124m"},
            {"gpt2-345m", "gpt2-350m"},
            {"gpt2-355m", "gpt2-350m"},
            {"gpt2-1558m", "gpt2-1.5b"},
            {"Llama-2-7b-hf", "llama2-7b"},
            {"Llama-2-13b-hf", "llama2-13b"},
            {"Llama-2-70b-hf", "llama2-70b"},
            {"Llama-3-8B-Instruct", "llama3-8b"},
            {"Llama-3-70B-Instruct", "llama3-70b"},
            {"Llama-3.1-8B-Instruct", "llama3.1-8b"},
            {"Llama-3.1-70B-Instruct", "llama3.1-70b"},
            {"Llama-3.1-405B-Instruct", "llama3.1-405b"},
            {"Llama-3.2-1B-Instruct", "llama3.2-1b"},
            {"Llama-3.2-3B-Instruct", "llama3.2-3b"},
            {"Mistral-7B-v0.3", "mistral-7b"},
            {"Mistral-7B-Instruct-v0.3", "mistral-7b"},
            {"bert-base-uncased", "bert-base"},
            {"bert-large-uncased", "bert-large"},
            {"bert-large-uncased-whole-word-masking", "bert-large"},
            {"bert_uncased_L-2_H-128_A-2", "bert-tiny"},
            {"bert_uncased_L-4_H-256_A-4", "bert-mini"},
            {"bert_uncased_L-4_H-512_A-8", "bert-small"},
            {"bert_uncased_L-8_H-512_A-8", "bert-medium"},
            {"bert_uncased_L-12_H-768_A-12", "bert-base"}};
enum { ALSO = sizeof(also) / sizeof(also[0]) };

/* Return whether a name has no owner (on Hugging Face, the part before the slash), or an owner that published models of
 * the presets. The same name of another owner may be a different model: unsloth/mistral-7b has the settings of
 * Mistral-7B-v0.1. */
static bool has_known_owner(const char *name)
{
    static const char site[] = "https://huggingface.co/";
    static const char *const owner[] = {"meta-llama",       "mistralai",   "Qwen",  "HuggingFaceTB",
                                        "openai-community", "google-bert", "google"};
    if (strncmp(name, site, strlen(site)) == 0) name += strlen(site);
    const char *slash = strrchr(name, '/');
    for (size_t i = 0; slash && i < sizeof(owner) / sizeof(owner[0]); i++)
        if (strlen(owner[i]) == (size_t)(slash - name) && strncasecmp(owner[i], name, strlen(owner[i])) == 0)
            return true;
    return !slash;
}

/* Return the part of a name that says the model: without its owner or folder, and without "Meta-" before "Llama". */
static const char *without_owner(const char *name)
{
    const char *slash = strrchr(name, '/');
    if (slash) name = slash + 1;
    return strncasecmp(name, "meta-llama", 10) == 0 ? name + strlen("meta-") : name;
}

/* Write a name in small letters without its owner, and without separators except between two digits: Llama-3-8B and
 * llama3-8b both become llama3-8b. Return `text`. */
static const char *plain(const char *name, char text[PLAIN_BYTES])
{
    size_t n = 0;
    bool separated = false;
    for (const char *at = without_owner(name); *at && n + 2 < PLAIN_BYTES; at++) {
        if (strchr("-_: ", *at)) {
            separated = true;
            continue;
        }
        if (separated && n > 0 && isdigit((unsigned char)text[n - 1]) && isdigit((unsigned char)*at)) text[n++] = '-';
        text[n++] = (char)tolower((unsigned char)*at);
        separated = false;
    }
    text[n] = '\0';
    return text;
}
#define PLAIN(name) plain((name), (char[PLAIN_BYTES]){0})

const zr_preset *zr_family_preset_called(const char *name, const zr_family **family)
{
    const zr_preset *preset;
    for (int i = 0; (preset = zr_family_preset(i, family)); i++)
        if (strcmp(preset->name, name) == 0) return preset;
    if (!has_known_owner(name)) return NULL;
    for (int i = 0; (preset = zr_family_preset(i, family)); i++)
        if (strcmp(PLAIN(preset->name), PLAIN(name)) == 0) return preset;
    for (int i = 0; i < ALSO; i++)
        if (strcmp(PLAIN(also[i].name), PLAIN(name)) == 0) return zr_family_preset_called(also[i].preset, family);
    return NULL;
}

/* ---- similar names ----------------------------------------------------------------------------- */

/* Return the length of the longest prefix of `wanted` that occurs anywhere in `name`. For example, "60b" occurs in
 * zero-60b-75x8192x32. */
static size_t longest_prefix(const char *name, const char *wanted)
{
    size_t most = 0;
    for (; *name; name++) {
        size_t n = 0;
        while (name[n] && name[n] == wanted[n]) n++;
        if (n > most) most = n;
    }
    return most;
}

/* Return the length of the longest prefix of `wanted` that occurs in `name`: compare the names as given, and as `plain`
 * writes them, and return the longer length. */
static size_t likeness(const char *name, const char *wanted)
{
    const size_t as_given = longest_prefix(name, wanted), as_plain = longest_prefix(PLAIN(name), PLAIN(wanted));
    return as_given > as_plain ? as_given : as_plain;
}

/* Return whether `wanted` has the last word of a preset's name, such as the size 7b. */
static bool has_last_word(const char *wanted, const char *name)
{
    const char *dash = strrchr(name, '-');
    return dash && strstr(PLAIN(wanted), dash + 1);
}

/* Return the length of a plain name up to its size, such as 8b, without words such as "instruct" behind it. */
static size_t length_to_size(const char *text)
{
    size_t n = 1;
    while (text[n - 1] && !(n > 1 && isdigit((unsigned char)text[n - 2]) && strchr("bm", text[n - 1]))) n++;
    return text[n - 1] ? n : n - 1;
}

/* List up to NEAREST names that contain a prefix of `wanted` of at least half its length, longest prefix first. Among
 * names with the same prefix, list those first whose last word `wanted` contains. A space precedes each name. Return
 * the number of all names. */
static int nearest(const char *wanted, char text[NEAREST_BYTES])
{
    size_t used = 0, length = strlen(wanted), found = 0;
    const size_t least = (length_to_size(PLAIN(wanted)) + 1) / 2;
    const char *names[NAMES_MOST];
    const zr_preset *preset;
    const zr_family *family;
    int n = 0;
    for (; n < NAMES_MOST && (preset = zr_family_preset(n, &family)); n++) names[n] = preset->name;
    text[0] = '\0';
    /* Begin with a name at edit distance 1, unless some name contains all of `wanted`. */
    const char *given[] = {PLAIN(wanted), wanted}, *close = NULL;
    for (int i = 0; i < 2; i++) {
        const char *near = zr__text_nearest(given[i], names, n);
        if (near && zr__text_distance(given[i], near) <= 1) close = near;
    }
    for (int i = 0; i < n; i++)
        if (likeness(names[i], wanted) == length) close = NULL;
    if (close) {
        used += (size_t)snprintf(text, NEAREST_BYTES, " %s", close);
        found++;
    }
    for (size_t like = length; like > 0 && like >= least; like--)
        for (int i = 0; i < 2 * n && found < NEAREST && used < NEAREST_BYTES; i++) {
            const char *name = names[i % n];
            if (likeness(name, wanted) != like || name == close || has_last_word(wanted, name) != (i < n)) continue;
            used += (size_t)snprintf(text + used, NEAREST_BYTES - used, " %s", name);
            found++;
        }
    return n;
}

zr_status zr_family_find_preset(const char *name, const zr_family **family, zr_model_config *config)
{
    const zr_family *of;
    char near[NEAREST_BYTES];
    const zr_preset *preset = zr_family_preset_called(name, &of);
    if (!preset) {
        const int all = nearest(name, near);
        return ZR_FAIL(ZR_ERR_NOT_FOUND, "there is no preset \"%s\"%s%s; `zr plan --shapes` lists all %d", name,
                       near[0] ? "; nearest:" : "", near, all);
    }
    *config = (zr_model_config){0};
    memcpy(config, preset->config, of->bytes);
    if (of->complete) of->complete(config);
    if (family) *family = of;
    return ZR_OK;
}
