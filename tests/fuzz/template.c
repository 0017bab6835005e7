/** Fuzz target: arbitrary bytes as a chat template, which is read and, if it can be, executed on a conversation with
 * tools. The result is UTF-8, its marks are in order and cover it, and it is the same a second time. */
#include "base/text/text.h"
#include "data/template/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static const char variables[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"b\xc3\xa9\"}, {\"role\": \"user\", \"content\": \"\"},"
    " {\"role\": \"assistant\", \"content\": \"<think>a</think> b\\n\", \"tool_calls\": [{\"function\": {\"name\": "
    "\"f\","
    " \"arguments\": {\"x\": [1, 2.5, null, true, {\"y\": \"'\\\"\"}]}}}]}],"
    " \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {}}}],"
    " \"more\": {\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}}";

static void hold(bool truth, const char *what)
{
    if (truth) return;
    fprintf(stderr, "broken: %s\n", what);
    abort();
}

static void look_at(const zr__template_text *out)
{
    int64_t at = 0;
    for (int64_t i = 0; i < out->n; i++) {
        hold(out->mark[i].end >= at && out->mark[i].source >= ZR__FROM_DATA && out->mark[i].source < 3,
             "marks in order");
        at = out->mark[i].end;
    }
    hold(at == out->bytes, "marks cover the text");
    for (int64_t n; at > 0; at -= n) {
        n = zr__text_utf8(out->text + out->bytes - at, at);
        hold(n > 0, "the text is UTF-8");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static json_t *given;
    zr__template *template = NULL;
    zr__template_text once, again;
    if (!given) given = json_loads(variables, 0, NULL);
    const zr__template_args args = {.messages = json_object_get(given, "messages"),
                                    .tools = json_object_get(given, "tools"),
                                    .more = json_object_get(given, "more"),
                                    .add_generation_prompt = true,
                                    .date = "2024-07-26"};
    zr_status st = zr__template_read((const char *)bytes, (int64_t)n, "NAME", &template);
    hold(st == ZR_OK || ((st == ZR_ERR_DATA || st == ZR_ERR_UNSUPPORTED)), "a template is read or refused");
    if (st != ZR_OK) return 0;
    st = zr__template_run(template, &args, &once);
    hold(st == ZR_OK || st == ZR_ERR_DATA, "a template has a result or fails");
    if (st == ZR_OK) look_at(&once);
    hold(zr__template_run(template, &args, &again) == st && again.bytes == once.bytes &&
             (st != ZR_OK || once.bytes == 0 || memcmp(again.text, once.text, (size_t)once.bytes) == 0),
         "the result is the same");
    zr__template_release(&once);
    zr__template_release(&again);
    zr__template_close(&template);
    return 0;
}
