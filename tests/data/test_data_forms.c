//TEST timeout=60
/* Forms of records for fine-tuning: how they are recognised, what they become, what counts, and what is refused;
 * tables; compressed files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "support/tempdir.h"
#include "zr/data.h"

enum { SEQ = 1024 };

/* A template that shows all that a conversation may have. Its answers are found without {% generation %} blocks. */
static const char all_template[] =
    "{% if tools %}T:{{ tools | tojson }};{% endif %}{% if mood %}M:{{ mood }};{% endif %}"
    "{% for m in messages %}<{{ m.role }}>"
    "{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}"
    "{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}{{ part.text }}{% endfor %}{% "
    "endif %}"
    "{% for call in m.tool_calls %}!{{ call.function.name }}{{ call.function.arguments | tojson }}{% endfor %}"
    "</s>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
/* One that takes only texts. */
static const char text_template[] =
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content + '</s>' }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

static zr_data_args args_of(const char *name, const void *image, size_t bytes)
{
    return (zr_data_args){.path = put_file(name, image, bytes),
                          .vocab_size = 256,
                          .seq_length = SEQ,
                          .order = ZR_SEQUENTIAL,
                          .packing = ZR_PACK_ONE,
                          .chat_template_kwargs = "{\"eos_token\": \"</s>\"}",
                          .chat_template = put_file("all.jinja", all_template, strlen(all_template)),
                          .cache_dir = in_tempdir("cache")};
}

static void refused(const zr_data_args *args, zr_status wanted, const char *says)
{
    zr_data *data = NULL;
    if (zr_data_open_with(args, &data) != wanted) fail_msg("wanted \"%s\", not: %s", says, zr_error_message());
    if (!strstr(zr_error_message(), says)) fail_msg("\"%s\" is not in: %s", says, zr_error_message());
}

/* Check the text of record number `record`, with brackets around what counts, and the note on the form. */
static void reads(const zr_data_args *args, int64_t record, const char *wanted, const char *form)
{
    int32_t token[SEQ], target[SEQ];
    char text[4 * SEQ] = "";
    size_t n = 0;
    zr_data *data = NULL;
    if (zr_data_open_with(args, &data) != ZR_OK) fail_msg("%s", zr_error_message());
    assert_int_equal(zr_data_window(data, record, token, target), ZR_OK);
    for (int64_t i = 0; i < SEQ && token[i]; i++) {
        const bool counts = i > 0 && target[i - 1] >= 0, before = i > 1 && target[i - 2] >= 0;
        if (counts != before) text[n++] = counts ? '[' : ']';
        text[n++] = (char)token[i];
        if (counts && !token[i + 1]) text[n++] = ']';
    }
    assert_string_equal(text, wanted);
    if (form) assert_string_equal(zr_data_get_info(data).form, form);
    zr_data_close(&data);
}

/* Check the first record of a file. */
static void first_reads(const char *image, const char *wanted, const char *members)
{
    char form[256] = "";
    const zr_data_args args = args_of("x.jsonl", image, strlen(image));
    if (members) snprintf(form, sizeof(form), "%s: 1 record of %s", args.path, members);
    reads(&args, 0, wanted, members ? form : NULL);
}

#define FRUIT "Name a fruit."
#define PEAR "A pear."
#define SHOWN "<user>" FRUIT "</s><assistant>[" PEAR "</s>]"

/* Check that each form of the fact sheet is recognised by its members. */
static void forms_are_recognised(void **state)
{
    (void)state;
    first_reads("{\"messages\": [{\"role\": \"user\", \"content\": \"" FRUIT
                "\"}, {\"role\": \"assistant\", \"content\": \"" PEAR "\"}]}",
                SHOWN, "messages");
    first_reads("{\"id\": \"a\", \"conversations\": [{\"from\": \"human\", \"value\": \"" FRUIT
                "\"}, {\"from\": \"gpt\", \"value\": \"" PEAR "\"}]}",
                SHOWN, "conversations");
    first_reads("{\"messages\": [{\"from\": \"human\", \"value\": \"" FRUIT
                "\"}, {\"from\": \"gpt\", \"value\": \"" PEAR "\"}]}",
                SHOWN, "messages");
    first_reads("{\"conversations\": [{\"role\": \"user\", \"content\": \"" FRUIT
                "\"}, {\"role\": \"assistant\", \"content\": \"" PEAR "\"}], \"system\": \"S\"}",
                "<system>S</s>" SHOWN, "conversations, system");
    first_reads("{\"instruction\": \"" FRUIT "\", \"input\": \"\", \"output\": \"" PEAR "\"}", SHOWN,
                "instruction, input, output");
    first_reads("{\"instruction\": \"Name\", \"input\": \"a fruit.\", \"output\": \"" PEAR
                "\", \"system\": \"S\", \"history\": [[\"q\", \"a\"]], \"text\": \"all\"}",
                "<system>S</s><user>q</s><assistant>[a</s>]<user>Name\na fruit.</s><assistant>[" PEAR "</s>]",
                "instruction, input, output, system, history (their \"text\" is not read; data.columns chooses)");
    first_reads("{\"instruction\": \"" FRUIT "\", \"output\": \"" PEAR "\", \"input\": null, \"history\": []}", SHOWN,
                "instruction, output, history");
    first_reads("{\"prompt\": \"q\", \"completion\": \"a\"}", "q[a\n]", "prompt, completion");
    first_reads("{\"prompt\": [{\"role\": \"user\", \"content\": \"" FRUIT
                "\"}], \"completion\": [{\"role\": \"assistant\", \"content\": \"" PEAR "\"}]}",
                SHOWN, "prompt, completion");
    first_reads("{\"prompt\": \"" FRUIT "\", \"response\": \"" PEAR "\"}", SHOWN, "prompt, response");
    first_reads("{\"question\": \"" FRUIT "\", \"answer\": \"" PEAR "\"}", SHOWN, "question, answer");
    first_reads("{\"id\": 1, \"system_prompt\": \"S\", \"question\": \"" FRUIT "\", \"response\": \"" PEAR "\"}",
                "<system>S</s>" SHOWN, "question, response, system_prompt");
    first_reads("{\"system_prompt\": \"\", \"query\": \"" FRUIT "\", \"response\": \"" PEAR "\"}", SHOWN,
                "query, response");
    first_reads("{\"input\": \"" FRUIT "\", \"output\": \"" PEAR "\"}", SHOWN, "input, output");
    first_reads("{\"problem\": \"" FRUIT "\", \"solution\": \"" PEAR "\"}", SHOWN, "problem, solution");
    first_reads("{\"text\": \"all of it\", \"question\": \"q\", \"answer\": \"a\"}", "a[ll of it\n]",
                "text (their \"question\" is not read; data.columns chooses)");
    first_reads("{\"messages\": null, \"text\": \"all of it\"}", "a[ll of it\n]", NULL);
    zr_data_args args = args_of("x.jsonl", "{\"text\": \"a text\"}\n", 19);
    reads(&args, 0, "a[ text\n]", "");
}

/* Check members of messages that reach the template, and what counts of them. */
static void conversations(void **state)
{
    (void)state;
#define USER "{\"role\": \"user\", \"content\": \"q\"}"
    first_reads("{\"tools\": [{\"name\": \"f\", \"x\": null}], \"messages\": [{\"role\": \"developer\", \"content\": "
                "\"D\"}, " USER ", {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"type\": "
                "\"function\", \"function\": {\"name\": \"f\", \"arguments\": {\"a\": 1, \"b\": null}}}]}, {\"role\": "
                "\"tool\", \"content\": \"r\", \"tool_call_id\": \"7\"}, {\"role\": \"assistant\", "
                "\"reasoning_content\": \"so\", \"content\": \"y\"}]}",
                "T:[{\"name\": \"f\"}];<developer>D</s><user>q</s><assistant>[!f{\"a\": 1}</s>]<tool>r</s><assistant>"
                "[(so)y</s>]",
                "messages, tools");
    first_reads("{\"tools\": \"[{\\\"name\\\": \\\"f\\\"}]\", \"conversations\": [{\"from\": \"human\", \"value\": "
                "\"q\"}, {\"from\": \"function_call\", \"value\": \"{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": "
                "{}}\"}, {\"from\": \"observation\", \"value\": \"r\"}, {\"from\": \"gpt\", \"value\": \"y\"}]}",
                "T:[{\"name\": \"f\"}];<user>q</s><assistant>[!f{}</s>]<tool>r</s><assistant>[y</s>]",
                "conversations, tools");
    /* parts of a content, and a template that takes only texts */
    static const char parts[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, {\"type\": "
        "\"text\", \"text\": \"b\"}]}, {\"role\": \"assistant\", \"content\": [{\"type\": \"text\", \"text\": "
        "\"c\"}]}]}";
    first_reads(parts, "<user>ab</s><assistant>[c</s>]", "messages");
    zr_data_args args = args_of("x.jsonl", parts, strlen(parts));
    args.chat_template = put_file("text.jinja", text_template, strlen(text_template));
    reads(&args, 0, "<user>ab</s><assistant>[c</s>]", NULL);
    /* a conversation as prompt and completion: all that follows the prompt counts */
    static const char lists[] = "{\"prompt\": [" USER ", {\"role\": \"assistant\", \"content\": \"a\"}, " USER
                                "], \"completion\": [{\"role\": \"assistant\", \"content\": \"b\"}, " USER "]}";
    args = args_of("x.jsonl", lists, strlen(lists));
    reads(&args, 0, "<user>q</s><assistant>a</s><user>q</s><assistant>[b</s><user>q</s>]", NULL);
    args.loss_on = ZR_LOSS_ON_LAST;
    reads(&args, 0, "<user>q</s><assistant>a</s><user>q</s><assistant>[b</s>]<user>q</s>", NULL);
    /* variables of the template: of the run, and of the record */
    static const char moods[] = "{\"messages\": [" USER ", {\"role\": \"assistant\", \"content\": \"a\"}]}\n"
                                "{\"messages\": [" USER ", {\"role\": \"assistant\", \"content\": \"a\"}], "
                                "\"chat_template_kwargs\": {\"mood\": \"sad\"}}\n";
    args = args_of("x.jsonl", moods, strlen(moods));
    reads(&args, 0, "<user>q</s><assistant>[a</s>]", NULL);
    args.chat_template_kwargs = "{\"mood\": \"glad\", \"eos_token\": \"</s>\"}"; /* other tokens in the cache */
    reads(&args, 0, "M:glad;<user>q</s><assistant>[a</s>]", NULL);
    reads(&args, 1, "M:sad;<user>q</s><assistant>[a</s>]", NULL);
    /* the order of members, which the template shows */
    args.chat_template_kwargs = "{\"mood\": {\"a\": 1, \"b\": 2}, \"eos_token\": \"</s>\"}";
    reads(&args, 0, "M:{'a': 1, 'b': 2};<user>q</s><assistant>[a</s>]", NULL);
    args.chat_template_kwargs = "{\"mood\": {\"b\": 2, \"a\": 1}, \"eos_token\": \"</s>\"}";
    reads(&args, 0, "M:{'b': 2, 'a': 1};<user>q</s><assistant>[a</s>]", NULL);
    args.chat_template_kwargs = "{\"tools\": []}";
    refused(&args, ZR_ERR_CONFIG, "data.chat_template_kwargs: zr sets \"tools\" by each record; leave it out");
    args.chat_template_kwargs = "[]";
    refused(&args, ZR_ERR_CONFIG, "data.chat_template_kwargs is");
}

/* Check Alpaca's prompt, for models without a chat template. */
static void alpacas_prompt(void **state)
{
    (void)state;
    static const char image[] = "[{\"instruction\": \"Name it.\", \"input\": \"a pear\", \"output\": \"Pear\"},\n"
                                "{\"instruction\": \"Go on.\", \"output\": \"\"},\n"
                                "{\"instruction\": \"Why?\", \"output\": \"So.\", \"system\": \"Be short.\", "
                                "\"history\": [[\"Hi\", \"Hello\"]]}]";
    char form[256];
    zr_data_args args = args_of("alpaca.json", image, strlen(image));
    snprintf(form, sizeof(form),
             "%s: 3 records of instruction, input, output, in Alpaca's prompt (data.chat_template alpaca)", args.path);
    args.chat_template = NULL;
    reads(&args, 0,
          "Below is an instruction that describes a task, paired with an input that provides further context. Write a "
          "response that appropriately completes the request.\n\n### Instruction:\nName it.\n\n### Input:\na pear\n\n"
          "### Response:[Pear\n]",
          form);
    reads(&args, 1,
          "Below is an instruction that describes a task. Write a response that appropriately completes the "
          "request.\n\n### Instruction:\nGo on.\n\n### Response:[\n]",
          form);
    reads(
        &args, 2,
        "Be short.\n\n### Instruction:\nHi\n\n### Response:[Hello\n]\n\n### Instruction:\nWhy?\n\n### Response:[So.\n]",
        form);
    static const char pair[] = "{\"question\": \"q\", \"answer\": \"a\"}\n";
    args = args_of("x.jsonl", pair, strlen(pair));
    args.chat_template = NULL;
    refused(&args, ZR_ERR_UNSUPPORTED,
            "or read them as texts without one: data.columns {\"prompt\": \"question\", "
            "\"completion\": \"answer\"}");
    args.columns = "{\"prompt\": \"question\", \"completion\": \"answer\"}";
    snprintf(form, sizeof(form), "%s: 1 record of question as prompt, answer as completion", args.path);
    reads(&args, 0, "q[a\n]", form);
}

/* Check names that the user gives. */
static void columns_have_names(void **state)
{
    (void)state;
    static const char image[] =
        "{\"q\": \"" FRUIT "\", \"a\": \"" PEAR "\", \"text\": \"t\", \"talk\": [{\"who\": \"user\", "
        "\"says\": \"q\"}, {\"who\": \"gpt\", \"says\": \"a\", \"weight\": 1}]}\n";
    zr_data_args args = args_of("x.jsonl", image, strlen(image));
    char form[256];
    reads(&args, 0, "t[\n]", NULL);
    args.columns = "{\"question\": \"q\", \"answer\": \"a\"}";
    snprintf(form, sizeof(form),
             "%s: 1 record of q as question, a as answer (their \"text\" is not read; data.columns chooses)",
             args.path);
    reads(&args, 0, SHOWN, form);
    args.columns = "{\"prompt\": \"q\", \"completion\": \"a\"}";
    reads(&args, 0, FRUIT "[" PEAR "\n]", NULL);
    args.columns = "{\"text\": \"a\"}";
    reads(&args, 0, "A[ pear.\n]", NULL);
    args.columns = NULL;
    args.text_key = "a";
    reads(&args, 0, "A[ pear.\n]", NULL);
    args.columns = "{\"text\": \"a\"}";
    refused(&args, ZR_ERR_CONFIG, "data.columns and data.text_key cannot be given together");
    args.text_key = "text";
    args.columns = "{\"messages\": \"talk\", \"role\": \"who\", \"content\": \"says\"}";
    reads(&args, 0, "<user>q</s><assistant>[a</s>]", NULL);
    static const char *const bad[] = {"{\"questions\": \"q\"}",
                                      "data.columns: \"questions\" is no member that zr reads",
                                      "{\"question\": 1}",
                                      "data.columns: \"question\" is 1; expected a member's name",
                                      "{\"question\": \"q\", \"completion\": \"a\"}",
                                      "no form of records has all of these members together",
                                      "[]",
                                      "data.columns is []"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i += 2) {
        args.columns = bad[i];
        refused(&args, ZR_ERR_CONFIG, bad[i + 1]);
    }
    args.columns = "{\"question\": \"x\", \"answer\": \"a\"}";
    refused(&args, ZR_ERR_DATA,
            "x.jsonl:1: the record has \"q\", \"a\", \"text\", \"talk\", which together are no form "
            "that zr reads with these data.columns");
}

/* Check records that are bad, each with its place. */
static void bad_records(void **state)
{
    (void)state;
#define TWO(second) "{\"instruction\": \"i\", \"output\": \"o\"}\n" second "\n"
#define TALK(message) "{\"messages\": [" message "]}\n"
    static const struct {
        const char *image, *says;
    } bad[] = {
        {TWO("{\"instruction\": \"i\"}"), "x.jsonl:2: \"output\" is missing; the first record of this file has "
                                          "instruction, output, so each must, but this one has \"instruction\""},
        {TWO("{\"question\": \"q\", \"answer\": \"a\"}"), "x.jsonl:2: \"instruction\" is missing"},
        {TWO("{\"instruction\": \"i\", \"output\": [\"o\"]}"), "x.jsonl:2: \"output\" is [\"o\"]; expected a text"},
        {TWO("{\"instruction\": \"i\", \"output\": \"o\", \"input\": 7}"),
         "x.jsonl:2: \"input\" is 7; expected a text"},
        {TWO("{\"instruction\": \"i\", \"output\": \"o\", \"history\": [[\"a\"]]}"),
         "x.jsonl:2: \"history\" is not a list of pairs"},
        {TWO("{\"instruction\": \"\", \"output\": \"\"}"), "x.jsonl:2: the messages have no text"},
        {"{\"chosen\": \"a\", \"rejected\": \"b\", \"prompt\": \"p\"}", "these are preferences"},
        {"{\"chosen\": [], \"rejected\": []}", "data.columns {\"messages\": \"chosen\"}"},
        {"{\"input_ids\": [1, 2]}", "these are tokens"},
        {"{\"version\": \"1\", \"data\": [{}]}", "if \"data\" has the records, write it to a file of its own"},
        {"{\"a\": \"x\", \"b\": \"y\"}", "such as {\"prompt\": \"a\", \"completion\": \"b\"}"},
        {"{\"a\": 1}", "such as {\"text\": \"body\"}"},
        {TALK("{\"role\": \"critic\", \"content\": \"a\"}"), "x.jsonl:1: message 1: \"role\" is \"critic\"; expected"},
        {TALK("{\"from\": \"bard\", \"value\": \"a\"}"), "message 1: \"from\" is \"bard\""},
        {TALK("\"a\""), "message 1 is \"a\"; expected an object such as {\"role\""},
        {"{\"messages\": \"a\"}", "\"messages\" is \"a\"; expected a list of messages"},
        {"{\"question\": \"q\", \"answer\": \"a\", \"chat_template_kwargs\": \"{}\"}",
         "\"chat_template_kwargs\" is \"{}\"; expected an object"},
        {"{\"chat_template_kwargs\": {\"add_generation_prompt\": false}, \"messages\": [" USER "]}",
         "\"chat_template_kwargs\" has \"add_generation_prompt\", which zr sets itself"},
        {TALK("{\"role\": \"user\"}"), "message 1: \"content\" is missing"},
        {TALK("{\"role\": \"user\", \"content\": 5}"), "message 1: \"content\" is 5; expected a text, or a list of"},
        {TALK("{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}"),
         "message 1: part 1 of \"content\" is \"image_url\"; zr trains on text"},
        {TALK("{\"from\": \"function_call\", \"value\": \"f()\"}"), "message 1: the function_call is no JSON"},
        {"{\"tools\": \"f\", \"messages\": [" USER ", {\"role\": \"assistant\", \"content\": \"a\"}]}",
         "\"tools\" is \"f\"; expected a list of tools"},
        {"{\"prompt\": [" USER "], \"completion\": []}", "\"completion\" is empty, so nothing is trained"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        zr_data_args args = args_of("x.jsonl", bad[i].image, strlen(bad[i].image));
        refused(&args, ZR_ERR_DATA, bad[i].says);
    }
    /* what a template does not read is refused by name */
    static const struct {
        const char *image, *says;
    } unread[] = {
        {"{\"tools\": [{}], \"messages\": [" USER ", {\"role\": \"assistant\", \"content\": \"a\"}]}",
         "the record has \"tools\", and the chat template does not read them"},
        {TALK("{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{}]}"),
         "message 1 has \"tool_calls\", which the chat template does not read"},
        {TALK("{\"role\": \"assistant\", \"content\": \"a\", \"reasoning_content\": \"b\"}"),
         "message 1 has \"reasoning_content\", which the chat template does not read"},
    };
    for (size_t i = 0; i < sizeof(unread) / sizeof(unread[0]); i++) {
        zr_data_args args = args_of("x.jsonl", unread[i].image, strlen(unread[i].image));
        args.chat_template = put_file("text.jinja", text_template, strlen(text_template));
        refused(&args, ZR_ERR_DATA, unread[i].says);
        args.skip_bad_lines = true;
        refused(&args, ZR_ERR_DATA, "no record has a text");
    }
    /* zr's own forms: developer is system, tool has no place */
    zr_data_args args = args_of("x.jsonl", "", 0);
    static const char developer[] =
        TALK("{\"role\": \"developer\", \"content\": \"d\"}, " USER ", {\"role\": \"assistant\", \"content\": \"a\"}");
    args.path = put_file("x.jsonl", developer, strlen(developer));
    args.chat_template = "llama3";
    reads(
        &args, 0,
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nd<|eot_id|><|start_header_id|>user<|end_header_"
        "id|>\n\nq<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n[a<|eot_id|>]",
        NULL);
    static const char tool[] = TALK(USER ", {\"role\": \"tool\", \"content\": \"r\"}");
    args.path = put_file("x.jsonl", tool, strlen(tool));
    refused(&args, ZR_ERR_DATA, "no message has the role \"assistant\"");
    args.loss_on = ZR_LOSS_ON_ALL;
    refused(&args, ZR_ERR_DATA, "message 2: zr's form llama3 has no place for the role \"tool\"");
}

/* Check tables: quotes, doubled quotes, line ends in fields, and the lines of errors. */
static void tables(void **state)
{
    (void)state;
    static const char csv[] = "\xef\xbb\xbfquestion,id,answer\r\n"
                              "\"one, \"\"two\"\"\nthree\",1,a\"b\r\n"
                              "\r\n"
                              "q,,\"a\"x\n";
    zr_data_args args = args_of("x.csv", csv, strlen(csv));
    reads(&args, 0, "<user>one, \"two\"\nthree</s><assistant>[a\"b</s>]", NULL);
    char form[256];
    snprintf(form, sizeof(form), "%s: 2 records of question, answer", args.path);
    reads(&args, 1, "<user>q</s><assistant>[ax</s>]", form);
    static const char tsv[] = "text\tlabel\na, b\t0\n\tx\n";
    args = args_of("x.TSV", tsv, strlen(tsv));
    reads(&args, 0, "a[, b\n]", "");
    static const struct {
        const char *image, *says;
    } bad[] = {
        {"text,b\n\"1\n2\",3\n4\n", "x.csv:4: the row has 1 field, and the first row has 2"},
        {"text,b\n1,2,3\n", "x.csv:2: the row has 3 fields"},
        {"text,b\n\"1\xff\",2\n", "x.csv:2: the field of column \"text\" is not UTF-8"},
        {"text,b\n1,2\n\"3,4\n", "x.csv:3: a field in quotes does not end"},
        {"text,text\n1,2\n", "x.csv:1: two columns have the name \"text\""},
        {"te\xffxt,b\n1,2\n", "x.csv:1: the name of column 1 is not UTF-8"},
        {"\n1,2\n", "x.csv:1: the first row is empty"},
        {"a;b\n1;2\n", "x.csv:1: the only column is \"a;b\"; the columns of .csv must be separated by commas"},
        {"question,answer\rq,a\r", "x.csv:1: a line ends with CR alone"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        args = args_of("x.csv", bad[i].image, strlen(bad[i].image));
        refused(&args, ZR_ERR_DATA, bad[i].says);
    }
    args = args_of("x.csv", "text,b\na\0b,2\n", 13);
    refused(&args, ZR_ERR_DATA, "x.csv:2: the field of column \"text\" is not UTF-8, or has a NUL");
    /* columns without names, such as the row numbers of pandas, are not read */
    static const char unnamed[] = ",question,answer,\n0,q,a,\n";
    args = args_of("x.csv", unnamed, strlen(unnamed));
    snprintf(form, sizeof(form), "%s: 1 record of question, answer", args.path);
    reads(&args, 0, "<user>q</s><assistant>[a</s>]", form);
    args = args_of("x.csv", bad[0].image, strlen(bad[0].image));
    args.skip_bad_lines = true;
    reads(&args, 0, "1[\n2\n]", "");
    args.as_text = true;
    args.packing = ZR_PACK_AUTO;
    args.seq_length = 4;
    zr_data *data = NULL;
    assert_int_equal(zr_data_open_with(&args, &data), ZR_OK);
    assert_int_equal(zr_data_get_info(data).tokens, strlen(bad[0].image));
    zr_data_close(&data);
}

/* ---- compressed files ------------------------------------------------------------------------ */

enum { ROOM = 1 << 20 };
static unsigned char packed[ROOM];

static size_t pack_gzip(const char *text, size_t n)
{
    z_stream z = {
        .next_in = (unsigned char *)(uintptr_t)text, .avail_in = (uInt)n, .next_out = packed, .avail_out = ROOM};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(deflateEnd(&z), Z_OK);
    return ROOM - z.avail_out;
}

static size_t pack_zstd(const char *text, size_t n)
{
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, 1)));
    const size_t bytes = ZSTD_compress2(zstd, packed, ROOM, text, n);
    assert_false(ZSTD_isError(bytes));
    ZSTD_freeCCtx(zstd);
    return bytes;
}

/* Check that a compressed file has the tokens of its text, whatever it is called. */
static void compressed_files(void **state)
{
    (void)state;
    static char text[1 << 20], first[64];
    size_t n = 0, half = 0;
    for (int i = 0; n + 200 < sizeof(text); i++) {
        n += (size_t)snprintf(text + n, 200, "{\"question\": \"%d\", \"answer\": \"%d\"}\n", i, i * 7);
        if (i == 100) half = n;
    }
    size_t (*const pack[])(const char *, size_t) = {pack_gzip, pack_zstd};
    for (int k = 0; k < 2; k++) {
        size_t bytes = pack[k](text, n);
        zr_data_args args = args_of(k ? "x.jsonl.zst" : "x", packed, bytes);
        zr_data *data = NULL;
        assert_int_equal(zr_data_open_with(&args, &data), ZR_OK);
        const int64_t documents = zr_data_get_info(data).documents;
        assert_true(documents > 1000 && strstr(zr_data_get_info(data).form, "records of question, answer"));
        zr_data_close(&data);
        snprintf(first, sizeof(first), "<user>%lld</s><assistant>[%lld</s>]", (long long)documents - 1,
                 (long long)(documents - 1) * 7);
        reads(&args, documents - 1, first, NULL);
        /* cut off, and with a changed byte */
        args.path = put_file("y", packed, bytes / 2);
        refused(&args, ZR_ERR_DATA, "end too early, at byte ");
        args.path = put_file("y", packed, 6);
        refused(&args, ZR_ERR_DATA, "end too early, at byte ");
        packed[bytes / 2] ^= 0x55;
        args.path = put_file("y", packed, bytes);
        refused(&args, ZR_ERR_DATA, "y");
        /* several members, one after the other */
        bytes = pack[k](text, half);
        FILE *file = fopen(put_file("z", packed, bytes), "ab");
        if (!file) abort();
        bytes = pack[k](text + half, n - half);
        assert_int_equal(fwrite(packed, 1, bytes, file), bytes);
        for (int i = 0; i < 512 && k == 0; i++) fputc(0, file); /* as on a tape */
        fclose(file);
        args.path = in_tempdir("z");
        reads(&args, documents - 1, first, NULL);
        file = fopen(args.path, "ab");
        if (!file) abort();
        fputs("more", file);
        fclose(file);
        refused(&args, ZR_ERR_DATA, "are damaged before byte");
    }
    /* a table, a text, and something else */
    size_t bytes = pack_gzip("text,b\nabc,1\n", 13);
    zr_data_args args = args_of("x.csv.GZ", packed, bytes);
    reads(&args, 0, "a[bc\n]", NULL);
    args = args_of("text.gz", packed, pack_gzip("a plain text", 12));
    args.packing = ZR_PACK_AUTO;
    args.seq_length = 8;
    zr_data *data = NULL;
    assert_int_equal(zr_data_open_with(&args, &data), ZR_OK);
    assert_int_equal(zr_data_get_info(data).tokens, 12);
    assert_string_equal(zr_data_get_info(data).note, "");
    zr_data_close(&data);
    args.path = put_file("x.gz", packed, pack_gzip("%PDF-1.4 ...", 12));
    refused(&args, ZR_ERR_DATA, "its format is PDF");
    args.path = put_file("x.bin.gz", packed, pack_gzip("\1\0\2\0\3\0\4\0", 8));
    refused(&args, ZR_ERR_DATA, "x.bin.gz: tokens are not read from compressed files; unpack it");
}

/* Check that a text of zeros or blanks that was compressed a thousandfold is refused, or passes by without memory. */
static void bombs(void **state)
{
    (void)state;
    enum { BLANKS = 64 << 20 };
    char *text = malloc(BLANKS);
    if (!text) abort();
    memset(text, ' ', BLANKS);
    memcpy(text, "[{\"text\": \"a\"}", 14);
    size_t bytes = pack_gzip(text, BLANKS);
    assert_true(bytes < BLANKS / 900);
    zr_data_args args = args_of("x.json", packed, bytes);
    refused(&args, ZR_ERR_DATA, "the record is longer than 16777216 bytes");
    memset(text, 0, BLANKS);
    args.path = put_file("x.txt", packed, pack_zstd(text, BLANKS));
    refused(&args, ZR_ERR_DATA, "this is not a text");
    free(text);
}

/* Check the message about tables of columns: the footers were written by pyarrow 26 and by hand. */
static void columns_of_parquet(void **state)
{
    (void)state;
    /* FileMetaData: version 2; a schema of 5 elements: root with 3 children, "instruction", "talk" with one child
     * "list", "out\"put"; 1 row; no row groups */
    static const unsigned char footer[] = "\x15\x04\x19\x5c"
                                          "\x48\x06schema\x15\x06\x00"
                                          "\x15\x0c\x25\x02\x18\x0binstruction\x25\x00\x4c\x1c\x00\x00\x00"
                                          "\x35\x02\x18\x04talk\x15\x02\x00"
                                          "\x15\x0c\x25\x02\x18\x04list\x00"
                                          "\x15\x0c\x25\x02\x18\x07out\"put\x00"
                                          "\x16\x02\x19\x0c\x00";
    const size_t n = sizeof(footer) - 1;
    unsigned char file[512] = "PAR1";
    memcpy(file + 4, footer, n);
    file[4 + n] = (unsigned char)n;
    memcpy(file + 4 + n + 4, "PAR1", 4);
    const size_t bytes = 4 + n + 8;
    zr_data_args args = args_of("x.parquet", file, bytes);
    refused(&args, ZR_ERR_DATA,
            "its format is Parquet, which zr cannot read; its columns are \"instruction\", \"talk\", "
            "\"out\"put\"; write its rows as JSON Lines: duckdb -c \"COPY (FROM '");
    for (size_t i = 4; i < bytes; i++) { /* each byte changed, and each length */
        const unsigned char was = file[i];
        file[i] ^= 0xff;
        args.path = put_file("x.parquet", file, bytes);
        refused(&args, ZR_ERR_DATA, "its format is Parquet");
        file[i] = was;
        args.path = put_file("x.parquet", file, i);
        refused(&args, ZR_ERR_DATA, "its format is Parquet");
    }
    args.path = put_file("x.arrow", "\xff\xff\xff\xff\x10\0\0\0", 8);
    refused(&args, ZR_ERR_DATA, "its format is Arrow, which zr cannot read; write its rows as JSON Lines, in Python");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_are_recognised), cmocka_unit_test(conversations), cmocka_unit_test(alpacas_prompt),
        cmocka_unit_test(columns_have_names),   cmocka_unit_test(bad_records),   cmocka_unit_test(tables),
        cmocka_unit_test(compressed_files),     cmocka_unit_test(bombs),         cmocka_unit_test(columns_of_parquet)};
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
