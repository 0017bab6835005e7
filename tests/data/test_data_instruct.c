//TEST timeout=60 tsan=1
/* Data for fine-tuning: prompts with completions, conversations, their targets, and one document for each sample. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "data/samples/samples.h"
#include "support/tempdir.h"
#include "zr/data.h"

enum { SEQ = 16, MOST_SEQ = 64 };

static zr_data_args args_of(const char *image)
{
    return (zr_data_args){.path = put_file("x.jsonl", image, strlen(image)),
                          .vocab_size = 256,
                          .seq_length = SEQ,
                          .order = ZR_SEQUENTIAL,
                          .documents = true,
                          .cache_dir = in_tempdir("cache")};
}

static zr_data *open_data(const zr_data_args *args)
{
    zr_data *data = NULL;
    if (zr_data_open_with(args, &data) != ZR_OK) fail_msg("%s", zr_error_message());
    return data;
}

static void refused(const zr_data_args *args, zr_status wanted, const char *says)
{
    zr_data *data = NULL;
    assert_int_equal(zr_data_open_with(args, &data), wanted);
    if (!strstr(zr_error_message(), says)) fail_msg("\"%s\" is not in: %s", says, zr_error_message());
}

/* Check the last sample or window that was read. `tokens` has the tokens, with _ for padding; `targets` has the
 * targets, with _ for -1; `begin` has the beginnings of documents as letters, a for 0. */
static void shows(zr_data *data, int64_t seq, const int32_t *token, const int32_t *target, const char *tokens,
                  const char *targets, const char *begin)
{
    char shown[3][MOST_SEQ + 1] = {{0}};
    int32_t first[MOST_SEQ];
    assert_int_equal(zr_data_documents(data, first), ZR_OK);
    for (int64_t i = 0; i < seq; i++) {
        shown[0][i] = token[i] ? (char)token[i] : '_';
        shown[1][i] = target[i] < 0 ? '_' : (char)target[i];
        shown[2][i] = (char)('a' + first[i]);
    }
    assert_string_equal(shown[0], tokens);
    assert_string_equal(shown[1], targets);
    if (begin) assert_string_equal(shown[2], begin);
}

static void sample_is(zr_data *data, int64_t sample, const char *tokens, const char *targets, const char *begin)
{
    int32_t token[MOST_SEQ], target[MOST_SEQ];
    if (zr_data_sample(data, sample, token, target) != ZR_OK) fail_msg("%s", zr_error_message());
    shows(data, (int64_t)strlen(tokens), token, target, tokens, targets, begin);
}

static void window_is(zr_data *data, int64_t window, const char *tokens, const char *targets, const char *begin)
{
    int32_t token[MOST_SEQ], target[MOST_SEQ];
    if (zr_data_window(data, window, token, target) != ZR_OK) fail_msg("%s", zr_error_message());
    shows(data, (int64_t)strlen(tokens), token, target, tokens, targets, begin);
}

static const char pairs[] = "{\"prompt\": \"2+3=\", \"completion\": \"5\"}\n"
                            "\n"
                            "{\"completion\": \"yes, it is\", \"prompt\": \"is it? \", \"id\": 7}\n"
                            "{\"prompt\": \"\", \"completion\": \"abc\"}\n";

static void one_pair_for_each_sample(void **state)
{
    (void)state;
    const zr_data_args args = args_of(pairs);
    zr_data *data = open_data(&args);
    const zr_data_info info = zr_data_get_info(data);
    assert_string_equal(info.format, "jsonl with prompts");
    assert_int_equal(info.documents, 3);
    assert_int_equal(info.windows, 3);
    assert_int_equal(info.epoch_samples, 3);
    assert_true(info.answers_only);
    assert_int_equal(info.cut_documents, 1);
    assert_int_equal(info.lost_documents, 0);
    assert_non_null(strstr(info.cut, "x.jsonl: 1 of 3 documents are longer than data.seq_length 16"));
    sample_is(data, 0, "2+3=5\n__________", "___5\n___________", "aaaaaagggggggggg");
    sample_is(data, 1, "is it? yes, it i", "______yes, it is", "aaaaaaaaaaaaaaaa");
    sample_is(data, 2, "abc\n____________", "bc\n_____________", "aaaaeeeeeeeeeeee");
    sample_is(data, 3, "2+3=5\n__________", "___5\n___________", NULL);
    window_is(data, 2, "abc\n____________", "bc\n_____________", "aaaaeeeeeeeeeeee");
    zr_data_close(&data);
}

/* Check that documents are packed whole into rows, in order, as long as they fit. A target is never the token of the
 * next document. */
static void whole_documents(void **state)
{
    (void)state;
    static const char image[] = "{\"prompt\": \"2+3=\", \"completion\": \"5\"}\n"
                                "{\"prompt\": \"\", \"completion\": \"abc\"}\n"
                                "{\"prompt\": \"one \", \"completion\": \"x\"}\n"
                                "{\"completion\": \"yes, it is\", \"prompt\": \"is it? \"}\n"
                                "{\"prompt\": \"c\", \"completion\": \"d\"}\n"
                                "{\"prompt\": \"e\", \"completion\": \"ffffffffffff\"}\n";
    zr_data_args args = args_of(image);
    args.packing = ZR_PACK_WHOLE;
    zr_data *data = open_data(&args);
    zr_data_info info = zr_data_get_info(data);
    assert_int_equal(info.documents, 6);
    assert_int_equal(info.windows, 3);
    assert_int_equal(info.epoch_samples, 3);
    assert_int_equal(info.cut_documents, 1);
    assert_true(info.filled == 1);
    sample_is(data, 0, "2+3=5\nabc\none x\n", "___5\n_bc\n____x\n_", "aaaaaaggggkkkkkk");
    sample_is(data, 1, "is it? yes, it i", "______yes, it is", "aaaaaaaaaaaaaaaa");
    sample_is(data, 2, "cd\neffffffffffff", "d\n_ffffffffffff\n", "aaaddddddddddddd");
    sample_is(data, 5, "cd\neffffffffffff", "d\n_ffffffffffff\n", NULL);
    window_is(data, 0, "2+3=5\nabc\none x\n", "___5\n_bc\n____x\n_", "aaaaaaggggkkkkkk");
    int64_t first = 0;
    assert_int_equal(zr__data_locate(data, 2, &first), ZR_OK);
    assert_int_equal(first, 6 + 4 + 6 + 18);
    zr_data_close(&data);
    args.seq_length = 11; /* a row of T + 1 tokens is full */
    data = open_data(&args);
    info = zr_data_get_info(data);
    assert_int_equal(info.windows, 5);
    assert_int_equal(info.cut_documents, 2);
    assert_float_equal(info.filled, 1 - (1 + 5 + 8) / 55.0, 1e-12);
    sample_is(data, 0, "2+3=5\nabc\n_", "___5\n_bc\n__", "aaaaaaggggk");
    sample_is(data, 1, "one x\n_____", "___x\n______", "aaaaaaggggg");
    sample_is(data, 2, "is it? yes,", "______yes, ", "aaaaaaaaaaa");
    sample_is(data, 3, "cd\n________", "d\n_________", "aaadddddddd");
    sample_is(data, 4, "effffffffff", "fffffffffff", "aaaaaaaaaaa");
    zr_data_close(&data);
    args.path = put_file("x.txt", pairs, strlen(pairs));
    args.as_text = true;
    refused(&args, ZR_ERR_UNSUPPORTED, "x.txt (text): records are needed (data.packing whole), and this file has none");
}

/* Check documents without tokens, which occur if the tokenizer knows none of their characters. They take no place in a
 * row, whether they come first, after a full row, or alone. */
static void documents_without_tokens(void **state)
{
    (void)state;
    static const char tokenizer[] =
        "{\"added_tokens\": [], \"normalizer\": null, \"pre_tokenizer\": null, "
        "\"post_processor\": null, \"decoder\": {\"type\": \"Sequence\", \"decoders\": "
        "[{\"type\": \"Replace\", \"pattern\": {\"String\": \"\xe2\x96\x81\"}, \"content\": \" \"}, "
        "{\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}]}, "
        "\"model\": {\"type\": \"BPE\", \"unk_token\": null, \"fuse_unk\": false, "
        "\"byte_fallback\": false, \"vocab\": {\"a\": 0, \"b\": 1, \"c\": 2}, \"merges\": []}}";
    static const char image[] = "{\"text\": \"zz\"}\n{\"text\": \"abc\"}\n{\"text\": \"ab\"}\n{\"text\": \"zz\"}\n"
                                "{\"text\": \"bc\"}\n{\"text\": \"z\"}\n{\"text\": \"b\"}\n";
    int32_t token[4], target[4], begin[4];
    put_file("tokenizer.json", tokenizer, strlen(tokenizer));
    zr_data_args args = args_of(image);
    args.packing = ZR_PACK_WHOLE;
    args.tokenizer = in_tempdir("");
    args.seq_length = 4;
    zr_data *data = open_data(&args);
    assert_int_equal(zr_data_get_info(data).windows, 2);
    assert_int_equal(zr_data_sample(data, 0, token, target), ZR_OK);
    assert_int_equal(zr_data_documents(data, begin), ZR_OK);
    assert_memory_equal(token, ((int32_t[]){0, 1, 2, 0}), sizeof(token));
    assert_memory_equal(target, ((int32_t[]){1, 2, -1, 1}), sizeof(target));
    assert_memory_equal(begin, ((int32_t[]){0, 0, 0, 3}), sizeof(begin));
    assert_int_equal(zr_data_window(data, 1, token, target), ZR_OK);
    assert_int_equal(zr_data_documents(data, begin), ZR_OK);
    assert_memory_equal(token, ((int32_t[]){1, 2, 1, 0}), sizeof(token));
    assert_memory_equal(target, ((int32_t[]){2, -1, -1, -1}), sizeof(target));
    assert_memory_equal(begin, ((int32_t[]){0, 0, 2, 3}), sizeof(begin));
    zr_data_close(&data);
    char list[2 * PATH_MAX];
    const char *none = put_file("none.jsonl", image, 15);
    snprintf(list, sizeof(list), "[{\"path\": \"%s\", \"weight\": 1}, {\"path\": \"%s\", \"weight\": 1}]", args.path,
             none);
    args.path = list;
    data = open_data(&args);
    for (int64_t sample = 0; sample < 8; sample++) assert_int_equal(zr_data_sample(data, sample, token, target), ZR_OK);
    assert_int_equal(zr_data_get_info(data).windows, 3);
    zr_data_close(&data);
}

static void pairs_one_after_the_other(void **state)
{
    (void)state;
    zr_data_args args = args_of(pairs);
    args.packing = ZR_PACK_DOCUMENTS;
    args.seq_length = 11;
    zr_data *data = open_data(&args);
    assert_int_equal(zr_data_get_info(data).tokens, 6 + 18 + 4);
    assert_int_equal(zr_data_get_info(data).windows, 2);
    sample_is(data, 0, "2+3=5\nis it", "___5\n______", "aaaaaaggggg");
    sample_is(data, 1, "? yes, it i", "_yes, it is", "aaaaaaaaaaa");
    assert_int_equal(zr_data_get_info(data).cut_documents, 0);
    zr_data_close(&data);
    args.seq_length = 7;
    data = open_data(&args);
    sample_is(data, 1, "s it? y", "_____ye", "aaaaaaa");
    sample_is(data, 2, "es, it ", "s, it i", "aaaaaaa");
    zr_data_close(&data);
}

static const char talk[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}\n";

static void messages_have_a_template(void **state)
{
    (void)state;
    zr_data_args args = args_of(talk);
    refused(&args, ZR_ERR_UNSUPPORTED, "name a form with data.chat_template");
    args.chat_template = "mistral";
    args.seq_length = 24;
    zr_data *data = open_data(&args);
    assert_string_equal(zr_data_get_info(data).format, "jsonl with messages");
    sample_is(data, 0, "<s>[INST] a [/INST]b</s>", "__________________b</s>_", NULL);
    zr_data_close(&data);
    args.chat_template = "llama2"; /* another template, which gives other tokens for the same text */
    data = open_data(&args);
    sample_is(data, 0, "<s>[INST] a [/INST] b </", "__________________ b </s", NULL);
    zr_data_close(&data);
}

static void answers_beyond_the_sample_are_told(void **state)
{
    (void)state;
    zr_data_args args = args_of(talk);
    args.chat_template = "chatml";
    zr_data *data = open_data(&args);
    assert_int_equal(zr_data_get_info(data).lost_documents, 1);
    assert_non_null(strstr(zr_data_get_info(data).cut, "1 of these lose their whole answer"));
    zr_data_close(&data);
}

static void bad_lines(void **state)
{
    (void)state;
    static const struct {
        const char *image, *says;
    } bad[] = {
        {"{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"text\": \"c\"}\n",
         "x.jsonl:2: \"prompt\" is missing; the first"},
        {"\n{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": 1, \"completion\": \"b\"}",
         "x.jsonl:3: \"prompt\" is 1; expected a text"},
        {"{\"prompt\": \"a\", \"completion\": \"\"}\n", "x.jsonl:1: \"completion\" is empty"},
        {"{\"text\": \"a\"}\n{\"prompt\": \"a\", \"completion\": \"b\"}\n", "x.jsonl:2: \"text\" is missing"},
        {"{\"messages\": 1}\n", "x.jsonl:1: \"messages\" is 1; expected a list of messages"},
        {"{\"messages\": []}\n", "x.jsonl:1: the messages have no text"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n",
         "x.jsonl:1: no message has the role \"assistant\""},
        {"{\"messages\": [{\"role\": \"critic\", \"content\": \"a\"}]}\n",
         "message 1: \"role\" is \"critic\"; expected system, developer, user"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [\"a\"]}]}\n", "message 1: part 1 of \"content\" is \"a\""},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{}]}]}\n",
         "message 1 has \"tool_calls\", which the chat template does not read"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]}\n", "the roles are not in turn"},
        {"{\"tools\": [{}], \"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
         "\"content\": \"b\"}]}\n",
         "the record has \"tools\", and the chat template does not read them"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        zr_data_args args = args_of(bad[i].image);
        args.chat_template = "mistral";
        refused(&args, ZR_ERR_DATA, bad[i].says);
    }
}

static void bad_lines_are_left_out(void **state)
{
    (void)state;
    zr_data_args args =
        args_of("no JSON\n{\"other\": 1}\n{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"text\": \"c\"}\n");
    refused(&args, ZR_ERR_DATA, "x.jsonl:1:");
    args.skip_bad_lines = true;
    zr_data *data = open_data(&args);
    assert_int_equal(zr_data_get_info(data).skipped_lines, 3);
    assert_int_equal(zr_data_get_info(data).documents, 1);
    sample_is(data, 0, "ab\n_____________", "b\n______________", NULL);
    zr_data_close(&data);
}

/* Check that a record with a text is one, although it also has members of a form that comes later. */
static void texts_stay_texts(void **state)
{
    (void)state;
    zr_data_args args =
        args_of("{\"text\": \"the first\", \"question\": \"q\", \"answer\": \"a\"}\n{\"text\": \"and a second\"}\n");
    zr_data *data = open_data(&args);
    assert_string_equal(zr_data_get_info(data).format, "jsonl");
    sample_is(data, 0, "the first\nand a ", "he first\nand a s", "aaaaaaaaaakkkkkk");
    zr_data_close(&data);
    args.packing = ZR_PACK_ONE;
    data = open_data(&args);
    sample_is(data, 1, "and a second\n___", "nd a second\n____", "aaaaaaaaaaaaannn");
    zr_data_close(&data);
    args.path = put_file("x.txt", pairs, strlen(pairs));
    args.as_text = true;
    refused(&args, ZR_ERR_UNSUPPORTED, "x.txt (text): records are needed (data.packing one), and this file has none");
    args.as_text = false;
    args.path = put_file("x.jsonl", "{\"text\": \"\"}\n", 13);
    refused(&args, ZR_ERR_DATA, "x.jsonl (jsonl): no record has a text");
    args = args_of(pairs);
    args.text_key = "completion";
    data = open_data(&args);
    sample_is(data, 0, "5\nyes, it is\nabc", "\nyes, it is\nabc\n",
              "aaccccccccccc"
              "nnn");
    zr_data_close(&data);
}

#define MESSAGE(role, text, more) "{\"role\": \"" role "\", \"content\": \"" text "\"" more "}"
#define MESSAGES(all) "{\"messages\": [" all "]}\n"

/* Check the targets of a conversation in the form mistral: "<s>[INST] q [/INST] a</s> ..." */
static void targets_are(const char *image, zr_data_loss_on loss_on, const char *targets)
{
    zr_data_args args = args_of(image);
    args.chat_template = "mistral";
    args.seq_length = (int64_t)strlen(targets);
    args.loss_on = loss_on;
    zr_data *data = open_data(&args);
    int32_t token[MOST_SEQ], target[MOST_SEQ];
    char shown[MOST_SEQ + 1] = "";
    assert_int_equal(zr_data_sample(data, 0, token, target), ZR_OK);
    for (int64_t i = 0; i < args.seq_length; i++) shown[i] = target[i] < 0 ? '_' : (char)target[i];
    assert_string_equal(shown, targets);
    zr_data_close(&data);
}

/* Check which tokens count: of answers, of the last answer, and of messages with a switch of their own. */
static void what_counts(void **state)
{
    (void)state;
#define TALK(first, second, third)                                                                                     \
    MESSAGES(MESSAGE("user", "q", first) "," MESSAGE("assistant", "a", second) "," MESSAGE(                            \
        "user", "r", "") "," MESSAGE("assistant", "b", third))
    /* all tokens: "<s>[INST] q [/INST]a</s>[INST] r [/INST]b</s>", whose first one is no target */
    targets_are(TALK("", "", ""), ZR_LOSS_ON_ANSWERS, "__________________a</s>________________b</s>");
    targets_are(TALK("", "", ""), ZR_LOSS_ON_LAST, "_______________________________________b</s>");
    targets_are(TALK("", "", ""), ZR_LOSS_ON_ALL, "s>[INST] q [/INST]a</s>[INST] r [/INST]b</s>");
    static const char *const off[] = {", \"weight\": 0", ", \"weight\": 0.0", ", \"train\": false",
                                      ", \"training\": false, \"weight\": null"};
    char image[1024];
    for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
        snprintf(image, sizeof(image), TALK("", "%s", ", \"weight\": 1"), off[i]);
        targets_are(image, ZR_LOSS_ON_ANSWERS, "_______________________________________b</s>");
        targets_are(image, ZR_LOSS_ON_ALL, "s>[INST] q [/INST]_____[INST] r [/INST]b</s>");
    }
    /* a switch decides for any role, and beside "last" */
    targets_are(TALK(", \"train\": true", "", ""), ZR_LOSS_ON_ANSWERS, "_________q________a</s>________________b</s>");
    targets_are(TALK("", ", \"weight\": 1", ""), ZR_LOSS_ON_LAST, "__________________a</s>________________b</s>");
    targets_are(TALK("", ", \"train\": true", ", \"train\": false"), ZR_LOSS_ON_LAST,
                "__________________a</s>_____________________");
    /* members without a value are missing */
    targets_are(TALK(", \"tool_calls\": null",
                     ", \"tool_calls\": [], \"reasoning_content\": null, \"train_detail\": null, \"weight\": null", ""),
                ZR_LOSS_ON_ANSWERS, "__________________a</s>________________b</s>");
    targets_are("{\"prompt\": \"xy\", \"completion\": \"z\"}\n", ZR_LOSS_ON_ANSWERS, "_z\n_");
    targets_are("{\"prompt\": \"xy\", \"completion\": \"z\"}\n", ZR_LOSS_ON_LAST, "_z\n_");
    targets_are("{\"prompt\": \"xy\", \"completion\": \"z\"}\n", ZR_LOSS_ON_ALL, "yz\n_");
    static const struct {
        const char *more, *says;
    } bad[] = {{", \"weight\": 0.5", "message 2: \"weight\" is 0.5; expected 0 or 1"},
               {", \"weight\": 2", "message 2: \"weight\" is 2; expected 0 or 1"},
               {", \"weight\": true", "message 2: \"weight\" is true; expected 0 or 1"},
               {", \"train\": 1", "message 2: \"train\" is 1; expected true or false"},
               {", \"train\": \"no\"", "message 2: \"train\" is \"no\"; expected true or false"},
               {", \"train\": true, \"weight\": 0", "message 2: \"weight\" and \"train\" contradict"},
               {", \"train_detail\": [{}]", "message 2: \"train_detail\" is not supported"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(image, sizeof(image), TALK("", "%s", ""), bad[i].more);
        zr_data_args args = args_of(image);
        args.chat_template = "mistral";
        refused(&args, ZR_ERR_DATA, bad[i].says);
    }
    zr_data_args args = args_of(TALK("", ", \"weight\": 0", ", \"train\": false"));
    args.chat_template = "mistral";
    refused(&args, ZR_ERR_DATA,
            "x.jsonl:1: each answer is switched off (weight 0, train false), so nothing is trained");
    args.loss_on = ZR_LOSS_ON_ALL + 1;
    refused(&args, ZR_ERR_ARG, "is not a valid choice of targets");
}

/* Make a file with many pairs, so that several threads encode it. */
static const char *many_pairs(int n)
{
    FILE *file = fopen(put_file("many.jsonl", "", 0), "wb");
    if (!file) abort();
    for (int i = 0; i < n; i++) fprintf(file, "{\"prompt\": \"%d \", \"completion\": \"%d\"}\n", i, i + 1);
    fclose(file);
    return in_tempdir("many.jsonl");
}

static void every_epoch_has_every_document_once(void **state)
{
    (void)state;
    enum { N = 9000 };
    static int seen[N];
    zr_data_args args = args_of(pairs);
    args.path = many_pairs(N);
    args.order = ZR_SHUFFLED;
    args.seed = 5;
    zr_data *data = open_data(&args);
    int in_order = 0;
    memset(seen, 0, sizeof(seen));
    assert_int_equal(zr_data_get_info(data).epoch_samples, N);
    for (int64_t s = 0; s < 2 * (int64_t)N; s++) {
        int32_t token[SEQ], target[SEQ], first[SEQ];
        char text[SEQ + 1] = "", answer[16];
        assert_int_equal(zr_data_sample(data, s, token, target), ZR_OK);
        assert_int_equal(zr_data_documents(data, first), ZR_OK);
        for (int i = 0; i < SEQ; i++) text[i] = (char)token[i];
        const int number = atoi(text);
        assert_in_range(number, 0, N - 1);
        seen[number]++;
        in_order += number == s % N;
        const int prompt = snprintf(answer, sizeof(answer), "%d ", number);
        const int n = snprintf(answer, sizeof(answer), "%d\n", number + 1);
        for (int i = 0; i < SEQ; i++) {
            const int at = i + 1 - prompt;
            assert_int_equal(target[i], at >= 0 && at < n ? answer[at] : -1);
            assert_int_equal(first[i], i < prompt + n ? 0 : prompt + n);
        }
    }
    for (int i = 0; i < N; i++) assert_int_equal(seen[i], 2);
    assert_true(in_order < 20);
    zr_data_close(&data);
}

/* Check a source of pairs beside one of plain text: samples of the first are documents, samples of the second are
 * windows. */
static void sources_pack_on_their_own(void **state)
{
    (void)state;
    char list[2 * PATH_MAX];
    zr_data_args args = args_of(pairs);
    const char *text = put_file("y.txt", "0123456789012345678901234567890123456789", 40);
    snprintf(list, sizeof(list), "[{\"path\": \"%s\", \"weight\": 1}, {\"path\": \"%s\", \"weight\": 1}]", args.path,
             text);
    args.path = list;
    zr_data *data = open_data(&args);
    int texts = 0;
    assert_int_equal(zr_data_get_info(data).windows, 3 + 2);
    window_is(data, 2, "abc\n____________", "bc\n_____________", "aaaaeeeeeeeeeeee");
    window_is(data, 4, "6789012345678901", "7890123456789012", "aaaaaaaaaaaaaaaa");
    for (int64_t s = 0; s < ZR_DATA_MIX; s++) {
        int32_t token[SEQ], target[SEQ];
        assert_int_equal(zr_data_sample(data, s, token, target), ZR_OK);
        texts += target[SEQ - 1] >= '0' && target[SEQ - 1] <= '9';
    }
    assert_int_equal(texts, ZR_DATA_MIX / 2);
    zr_data_close(&data);
    snprintf(list, sizeof(list), "[\"%s\", \"%s\"]", in_tempdir("x.jsonl"), text);
    refused(&args, ZR_ERR_DATA, "all files of a source must be of one kind");
}

/* Check that the samples of several files of one source are numbered consecutively. */
static void files_of_a_source(void **state)
{
    (void)state;
    char list[2 * PATH_MAX];
    zr_data_args args = args_of(pairs);
    const char *more = put_file("z.jsonl", "{\"prompt\": \"z\", \"completion\": \"zz\"}\n", 35);
    snprintf(list, sizeof(list), "[\"%s\", \"%s\"]", args.path, more);
    args.path = list;
    zr_data *data = open_data(&args);
    assert_int_equal(zr_data_get_info(data).windows, 4);
    window_is(data, 0, "2+3=5\n__________", "___5\n___________", NULL);
    window_is(data, 3, "zzz\n____________", "zz\n_____________", NULL);
    uint64_t hash = 0;
    assert_int_equal(zr__data_check(data, &hash, NULL, NULL), ZR_OK);
    zr_data_close(&data);
    args.documents = false;
    data = open_data(&args);
    assert_int_equal(zr_data_documents(data, (int32_t[SEQ]){0}), ZR_ERR_STATE);
    zr_data_close(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_pair_for_each_sample),
                                       cmocka_unit_test(whole_documents),
                                       cmocka_unit_test(documents_without_tokens),
                                       cmocka_unit_test(pairs_one_after_the_other),
                                       cmocka_unit_test(messages_have_a_template),
                                       cmocka_unit_test(answers_beyond_the_sample_are_told),
                                       cmocka_unit_test(bad_lines),
                                       cmocka_unit_test(bad_lines_are_left_out),
                                       cmocka_unit_test(texts_stay_texts),
                                       cmocka_unit_test(what_counts),
                                       cmocka_unit_test(every_epoch_has_every_document_once),
                                       cmocka_unit_test(sources_pack_on_their_own),
                                       cmocka_unit_test(files_of_a_source)};
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
