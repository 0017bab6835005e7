/* The files of a tokenizer in a Hugging Face directory: written, copied and removed. */
#include "train/tokenizer/tokenize.h"

#include "base/file/commit.h"
#include "base/file/folder.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char whole[] = "tokenizer.json", config[] = "tokenizer_config.json",
                  generation[] = "generation_config.json";
static const char *const names[] = {whole,
                                    config,
                                    "vocab.json",
                                    "merges.txt",
                                    "vocab.txt",
                                    "special_tokens_map.json",
                                    "added_tokens.json",
                                    "tekken.json",
                                    "chat_template.jinja",
                                    generation};
enum { NAMES = sizeof(names) / sizeof(names[0]), MOST_BYTES = 128 << 20 };

static zr_status write_in(const char *dir, const char *name, const char *text, size_t bytes)
{
    char path[PATH_MAX];
    ZR_TRY(zr__path_join(path, dir, name));
    return zr__file_put(path, text, (int64_t)bytes);
}

zr_status zr__tokenizer_files_write(const char *dir, const char *json, bool end_of_text)
{
    static const char plain[] = " \"clean_up_tokenization_spaces\": false,\n"
                                " \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n";
    static const char ends[] = " \"bos_token\": \"" ZR_END_OF_TEXT "\",\n \"eos_token\": \"" ZR_END_OF_TEXT "\",\n";
    char text[sizeof(plain) + sizeof(ends) + 2];
    const int bytes = snprintf(text, sizeof(text), "{\n%s%s", end_of_text ? ends : "", plain);
    ZR_TRY(write_in(dir, whole, json, strlen(json)));
    return write_in(dir, config, text, (size_t)bytes);
}

static zr_status copy_file(const char *from, const char *dir, const char *name)
{
    ZR_AUTO_FREE char *text = NULL;
    size_t bytes = 0;
    ZR_TRY(zr__json_read_most(from, MOST_BYTES, &text, &bytes)); /* reads any text */
    return write_in(dir, name, text, bytes);
}

static zr_status write_bytes(const char *dir)
{
    ZR_AUTO_FREE char *json = NULL;
    ZR_TRY(zr__tokenizer_bytes_json(&json));
    return zr__tokenizer_files_write(dir, json, false);
}

zr_status zr__tokenizer_files_take(const char *from, const char *dir)
{
    char path[PATH_MAX];
    for (int i = 0; i < NAMES; i++) {
        ZR_TRY(zr__path_join(path, from, names[i]));
        if (zr__path_is_in(from, names[i])) ZR_TRY(copy_file(path, dir, names[i]));
    }
    return ZR_OK;
}

zr_status zr__tokenizer_files_add(const char *from, const char *dir, bool all)
{
    char path[PATH_MAX];
    if (all && zr__tokenizer_is_in(from)) return zr__tokenizer_files_take(from, dir);
    if (!zr__path_is_in(from, generation) || zr__path_is_in(dir, generation)) return ZR_OK;
    ZR_TRY(zr__path_join(path, from, generation));
    return copy_file(path, dir, generation);
}

bool zr__tokenizer_files_any(const char *dir)
{
    for (int i = 0; i < NAMES; i++)
        if (zr__path_is_in(dir, names[i])) return true;
    return false;
}

zr_status zr__tokenizer_files_copy(const char *name, const char *dir)
{
    struct stat info;
    if (!name) return ZR_OK;
    if (strcmp(name, "bytes") == 0) return write_bytes(dir);
    if (stat(name, &info) != 0 || !S_ISDIR(info.st_mode))
        return copy_file(name, dir, zr__tokenizer_is_tekken(name) ? "tekken.json" : whole);
    ZR_CHECK(zr__tokenizer_is_in(name), ZR_ERR_NOT_FOUND,
             "data.tokenizer: the directory %s has no tokenizer.json, and no vocab.json or tekken.json either", name);
    return zr__tokenizer_files_take(name, dir);
}

static bool same_files(const char *a, const char *b)
{
    ZR_AUTO_FREE char *left = NULL, *right = NULL;
    size_t n = 0, m = 0;
    return zr__json_read_most(a, MOST_BYTES, &left, &n) == ZR_OK &&
           zr__json_read_most(b, MOST_BYTES, &right, &m) == ZR_OK && n == m && memcmp(left, right, n) == 0;
}

void zr__tokenizer_files_remove(const char *dir, const char *like)
{
    char path[PATH_MAX], other[PATH_MAX];
    for (int i = 0; i < NAMES; i++) {
        if (zr__path_join(path, dir, names[i]) != ZR_OK) continue;
        if (like && (zr__path_join(other, like, names[i]) != ZR_OK || !same_files(path, other))) continue;
        unlink(path);
    }
}
