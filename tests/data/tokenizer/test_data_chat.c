//TEST timeout=60
/* Forms of conversations: the text of each form, the parts that are trained on, and what the forms refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bpe_make.h"
#include "data/text/chat.h"
#include "support/tempdir.h"

/* Parse a conversation in short form. Each message consists of a letter for its role (s, u or a), a colon, its text and
 * a semicolon. A capital U is a user's message that counts, a capital A an answer that does not. */
static zr__talk talk_of(const char *text)
{
    zr__talk talk = {0};
    for (const char *end; (end = strchr(text, ';')); text = end + 1) {
        const char *role = strchr("sS", text[0]) ? "system" : strchr("uU", text[0]) ? "user" : "assistant";
        assert_int_equal(zr__talk_say(&talk, role, text + 2, end - text - 2), ZR_OK);
        talk.turn[talk.n - 1].trains = strchr("aU", text[0]) != NULL;
    }
    return talk;
}

/* Render a conversation in short form. Return the reason why the template has no form for it. */
static const char *render_text(const zr__chat *chat, const char *text, bool asks, zr__rendered *r)
{
    zr__talk talk = talk_of(text);
    const char *reason = NULL;
    assert_int_equal(zr__chat_render(chat, &talk, asks, r, &reason), ZR_OK);
    zr__talk_clear(&talk);
    return reason;
}

static zr__chat form(const char *name)
{
    zr__chat chat;
    assert_int_equal(zr__chat_find("bytes", name, NULL, NULL, &chat), ZR_OK);
    assert_string_equal(zr__chat_name(&chat), name);
    return chat;
}

/* Check the text of a conversation, and close the chat. In `wanted` a part that is trained on is within braces. */
static void shows(zr__chat *chat, const char *conversation, bool asks, const char *wanted)
{
    zr__rendered r = {0};
    zr__text shown = {0};
    bool inside = false;
    int64_t begin = 0;
    const char *reason = render_text(chat, conversation, asks, &r);
    if (reason) fail_msg("%s", reason);
    for (int64_t s = 0; s < r.n; begin = r.span[s++].end) {
        if (r.span[s].trains != inside) zr__text_append(&shown, inside ? "}" : "{", 1);
        inside = r.span[s].trains;
        zr__text_append(&shown, r.text.data + begin, (size_t)(r.span[s].end - begin));
    }
    if (inside) zr__text_append(&shown, "}", 1);
    assert_string_equal(shown.data, wanted);
    zr__text_clear(&shown);
    zr__rendered_free(&r);
    zr__chat_close(chat);
}

static void renders(const char *name, const char *conversation, bool asks, const char *wanted)
{
    zr__chat chat = form(name);
    shows(&chat, conversation, asks, wanted);
}

static void refuses(const char *name, const char *conversation, const char *says)
{
    zr__chat chat = form(name);
    zr__rendered r = {0};
    const char *reason = render_text(&chat, conversation, false, &r);
    assert_non_null(reason);
    if (!strstr(reason, says)) fail_msg("\"%s\" is not in: %s", says, reason);
    zr__rendered_free(&r);
    zr__chat_close(&chat);
}

static void chatml(void **state)
{
    (void)state;
    renders("chatml", "u:hi;a: yes ;", false,
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n{ yes <|im_end|>}\n");
    renders("chatml", "s:be;u:hi;", true,
            "<|im_start|>system\nbe<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
    renders("qwen2", "u:hi;a:yes;", false,
            "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
            "<|im_start|>assistant\n{yes<|im_end|>}\n");
    renders("qwen2.5", "u:hi;a:yes;u:and;", true,
            "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n{yes<|im_end|>}\n"
            "<|im_start|>user\nand<|im_end|>\n<|im_start|>assistant\n");
    renders("qwen2.5", "s:;u:hi;a:yes;", false,
            "<|im_start|>system\n<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n{yes<|im_end|>}\n");
}

/* The time is not proportional to the square of the turns. */
static void many_turns(void **state)
{
    (void)state;
    enum { TURNS = 4000 };
    zr__talk talk = {0};
    zr__chat chat = form("chatml");
    zr__rendered r = {0};
    const char *reason = NULL;
    int64_t begin = 0, answers = 0;
    for (int i = 0; i < 2 * TURNS; i += 2) {
        assert_int_equal(zr__talk_say(&talk, "user", "hi", 2), ZR_OK);
        assert_int_equal(zr__talk_say(&talk, "assistant", "yes", 3), ZR_OK);
        talk.turn[i + 1].trains = true;
    }
    assert_int_equal(zr__chat_render(&chat, &talk, false, &r, &reason), ZR_OK);
    if (reason) fail_msg("%s", reason);
    for (int64_t s = 0, end; s < r.n; begin = end) { /* spans that train follow each other */
        const bool trains = r.span[s].trains;
        for (end = begin; s < r.n && r.span[s].trains == trains; s++) end = r.span[s].end;
        if (!trains) continue;
        answers++;
        assert_int_equal(end - begin, strlen("yes<|im_end|>"));
        assert_memory_equal(r.text.data + begin, "yes<|im_end|>", end - begin);
    }
    assert_int_equal(answers, TURNS);
    zr__rendered_free(&r);
    zr__chat_close(&chat);
    zr__talk_clear(&talk);
}

static void qwen3_reasons_in_the_last_turn(void **state)
{
    (void)state;
    renders("qwen3", "u:a;a:b;u:c;a:d;", false,
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n{b<|im_end|>}\n<|im_start|>user\nc<|im_end|>\n"
            "<|im_start|>assistant\n{<think>\n\n</think>\n\nd<|im_end|>}\n");
    renders("qwen3", "u:a;a:<think>\nwhy\n</think>\n\nb;u:c;a:<think>\nhow\n\n</think>\n\nd;", false,
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n{b<|im_end|>}\n<|im_start|>user\nc<|im_end|>\n"
            "<|im_start|>assistant\n{<think>\nhow\n</think>\n\nd<|im_end|>}\n");
    /* the result of a tool is no question of the user */
    renders("qwen3", "u:a;a:<think>w</think>b;u:<tool_response>r</tool_response>;a:d;", false,
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n{<think>\nw\n</think>\n\nb<|im_end|>}\n"
            "<|im_start|>user\n<tool_response>r</tool_response><|im_end|>\n"
            "<|im_start|>assistant\n{<think>\n\n</think>\n\nd<|im_end|>}\n");
    renders("qwen3", "s:be;u:a;", true,
            "<|im_start|>system\nbe<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n");
}

static void llama(void **state)
{
    (void)state;
    renders("llama2", "u: hi ;a: yes\xe3\x80\x80;u:and;", false,
            "<s>[INST] hi [/INST]{ yes </s>}<s>[INST] and [/INST]");
    renders("llama2", "s: be ;u: hi ;a:yes;", false, "<s>[INST] <<SYS>>\n be \n<</SYS>>\n\n hi [/INST]{ yes </s>}");
    renders("llama3", "u: hi\n;a:\tyes ;", false,
            "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n{yes<|eot_id|>}");
    renders("llama3.1", "u:hi;", true,
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
            "Today Date: 26 Jul 2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
    renders("llama3.1", "s: be ;u:hi;a:yes;", false,
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
            "Today Date: 26 Jul 2024\n\nbe<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n{yes<|eot_id|>}");
    refuses("llama2", "a:hi;", "not in turn");
    refuses("llama2", "u:hi;u:hi;", "not in turn");
    refuses("llama2", "s:hi;", "alone");
}

static void mistral(void **state)
{
    (void)state;
    renders("mistral", "u:hi;a: yes;", false, "<s>[INST] hi [/INST]{ yes</s>}");
    renders("mistral-v1", "s:be;u:hi;a:yes;u:and;", false, "<s> [INST] be\n\nhi [/INST]{ yes</s>} [INST] and [/INST]");
    renders("mistral-v3", "u: hi ;a: yes ;", false, "<s>[INST]  hi [/INST]{ yes</s>}");
    renders("mistral-v3", "s:be;u:hi;a:yes;u:and;", false, "<s>[INST] hi[/INST]{ yes</s>}[INST] be\n\nand[/INST]");
    renders("mistral-tekken", "u:hi;a: yes ;", false, "<s>[INST]hi[/INST]{ yes </s>}");
    renders("mistral-tekken", "s:be;u:hi;", true, "<s>[INST]be\n\nhi[/INST]");
    renders("mistral-tekken", "U:hi;A:yes;", false, "<s>[INST]{hi}[/INST]yes</s>");
    renders("chatml", "U:hi;A:yes;", false, "<|im_start|>user\n{hi<|im_end|>}\n<|im_start|>assistant\nyes<|im_end|>\n");
    refuses("mistral", "s:be;u:hi;a:yes;", "no place");
    refuses("mistral-tekken", "s:be;u:hi;a:yes;", "drops");
    refuses("mistral-v1", "u:hi;s:be;a:yes;", "not in turn");
}

/* ---- templates of a directory ---------------------------------------------------------------- */

static void find_fails(const char *dir, const char *named, const char *says)
{
    zr_tokenizer *tokenizer = NULL;
    zr__chat chat;
    zr_status st = zr__chat_find(in_tempdir(dir), named, NULL, NULL, &chat);
    if (st == ZR_OK) {
        assert_int_equal(zr_tokenizer_open(in_tempdir(dir), &tokenizer), ZR_OK);
        st = zr__chat_want(&chat, tokenizer, "x.jsonl", "data.chat_template", "write other lines");
        zr_tokenizer_close(&tokenizer);
    }
    zr__chat_close(&chat);
    assert_int_not_equal(st, ZR_OK);
    if (!strstr(zr_error_message(), says)) fail_msg("\"%s\" is not in: %s", says, zr_error_message());
}

static void put_text(const char *name, const char *text)
{
    put_file(name, text, strlen(text));
}

/* Tokens of the test's tokenizer besides the bytes: "ab", two newlines, <|im_start|> and <|im_end|>. */
enum { AB = 256, LINES, START, END };

static void make_tokenizer(const char *dir)
{
    char name[64];
    mkdir(in_tempdir(dir), 0777);
    char *json = bpe_json("\"added_tokens\": [{\"id\": 258, \"content\": \"<|im_start|>\"}, "
                          "{\"id\": 259, \"content\": \"<|im_end|>\"}], ",
                          BPE_BYTE_LEVEL, "\"type\": \"BPE\"", "\"ab\": 256, \"\\u010a\\u010a\": 257",
                          "[\"a b\", \"\\u010a \\u010a\"]");
    snprintf(name, sizeof(name), "%s/tokenizer.json", dir);
    put_text(name, json);
    zr_free(json);
}

/* Check that a template that is missing, broken or for other tokens is refused before it is used. */
static void templates_are_read_or_refused(void **state)
{
    (void)state;
    zr__chat chat;
    make_tokenizer("t");
    find_fails("t", NULL, "has none; name a form with data.chat_template");
    find_fails("t", "llama3", "uses the token \"<|start_header_id|>\"");
    find_fails("t", "no", "data.chat_template is \"no\"; expected auto, chatml, qwen2");
    find_fails("t", "no.jinja", "no.jinja");
    /* transformers writes 10^30, as a sum of powers of 2, for "no limit" */
    put_text("t/tokenizer_config.json", "{\"chat_template\": \"a\\n{{ messages\", \"eos_token\": \"<|im_end|>\", "
                                        "\"model_max_length\": 1000000000000000019884624838656}");
    find_fails("t", "auto", "tokenizer_config.json:2: the tag has no end (}})");
    put_text("t/tokenizer_config.json", "{\"chat_template\": [{\"name\": \"default\", \"template\": \"{% do x %}\"}]}");
    find_fails("t", NULL, "tokenizer_config.json:1: the statement do is not supported by zr");
    put_text("t/chat_template.jinja", "{{ messages | nothing }}");
    find_fails("t", NULL, "chat_template.jinja:1: the filter nothing is not supported by zr");
    assert_int_equal(zr__chat_find("bytes", "chatml", "1 May", NULL, &chat), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "data.chat_date is \"1 May\""));
    zr__chat_close(&chat);
    assert_int_equal(zr__chat_find(in_tempdir("t/tokenizer.json"), "chatml", NULL, NULL, &chat), ZR_OK);
    assert_string_equal(zr__chat_name(&chat), "chatml");
    assert_string_equal(chat.end, "<|im_end|>");
    zr__chat_close(&chat);
}

/* Check the text and the answers of a template in a directory, which stand within braces in `wanted`. */
static void own_renders(const char *template, const char *conversation, const char *wanted)
{
    zr_tokenizer *tokenizer = NULL;
    zr__chat chat;
    put_text("t/chat_template.jinja", template);
    assert_int_equal(zr_tokenizer_open(in_tempdir("t"), &tokenizer), ZR_OK);
    assert_int_equal(zr__chat_find(in_tempdir("t"), NULL, "2025-01-31", NULL, &chat), ZR_OK);
    if (zr__chat_want(&chat, tokenizer, "x", "y", "z") != ZR_OK) fail_msg("%s", zr_error_message());
    assert_string_equal(zr__chat_name(&chat), "own");
    shows(&chat, conversation, false, wanted);
    zr_tokenizer_close(&tokenizer);
}

static void answers_of_other_templates(void **state)
{
    (void)state;
    make_tokenizer("t");
    put_text("t/tokenizer_config.json", "{\"bos_token\": \"<b>\", \"eos_token\": {\"content\": \"<|im_end|>\"}}");
    put_text("t/special_tokens_map.json", "{\"pad_token\": {\"content\": \"<p>\"}}");
    own_renders("{{ pad_token }}{{ messages[0].content }}", "a:b;", "<p>{b}");
    /* the generation prompt is not learned, what the template writes after it is; the date is that of the caller */
    own_renders(
        "{{ bos_token + strftime_now('%d %b') }}{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}"
        "think {% endif %}{{ m.content | trim }}{{ eos_token }}\n{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}",
        "u:q;a: yes ;u:r;a:;",
        "<b>31 Jan<user>q<|im_end|>\n<assistant>{think yes<|im_end|>}\n<user>r<|im_end|>\n"
        "<assistant>{think <|im_end|>}\n");
    /* a template whose generation prompt has more than earlier answers keep */
    own_renders(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if loop.last and m.role == 'assistant' %}<t>{% endif %}"
        "{{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<t>{% endif %}",
        "u:q;a:b;u:r;a:c;",
        "<|im_start|>user\nq<|im_end|><|im_start|>assistant\n{b<|im_end|>}<|im_start|>user\nr<|im_end|>"
        "<|im_start|>assistant\n<t>{c<|im_end|>}");
    /* no control token ends an answer, and there is no generation prompt */
    own_renders("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", "u:q;a:b;u:r;a:c;",
                "user: q\n{assistant: b}\nuser: r\n{assistant: c}\n");
    /* an answer in two parts with text of the template between them */
    own_renders("{% for m in messages %}{{ m.content.split('|')[-1] }} but {{ m.content.split('|')[0] }}.{% endfor %}",
                "u:q;a:b|c;", "q but q.{c but b}.");
    own_renders("{% for m in messages %}{{ m.role }}{% generation %}[{{ m.content }}]{% endgeneration %}\n{% endfor %}",
                "u:q;a:b;A:c;", "user[q]assistant{[b]}assistant[c]");
    zr__chat chat;
    zr__rendered r = {0};
    put_text("t/leaves-out.jinja", "{{ messages[-1].content }}");
    assert_int_equal(zr__chat_find("bytes", in_tempdir("t/leaves-out.jinja"), NULL, NULL, &chat), ZR_OK);
    const char *reason = render_text(&chat, "u:q;a:b;", false, &r);
    assert_string_equal(reason, "the chat template leaves out the text of message 1 (user)");
    zr__rendered_free(&r);
    zr__chat_close(&chat);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* Check the tokens of a rendered conversation. `wanted` has the tokens that do not count as negative numbers, -1 - id.
 */
static void encodes(const char *conversation, const int32_t *wanted, int64_t n_wanted)
{
    zr_tokenizer *tokenizer = NULL;
    zr__chat chat = form("chatml");
    zr__rendered r = {0};
    int32_t *id = NULL;
    int64_t room = 0, n = 0;
    assert_int_equal(zr_tokenizer_open(in_tempdir("t"), &tokenizer), ZR_OK);
    assert_null(render_text(&chat, conversation, false, &r));
    if (zr__rendered_encode(&r, &chat, tokenizer, &id, &room, &n) != ZR_OK) fail_msg("%s", zr_error_message());
    assert_int_equal(n, n_wanted);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(id[i] & INT32_MAX, wanted[i] < 0 ? -1 - wanted[i] : wanted[i]);
        assert_int_equal(id[i] < 0, wanted[i] < 0);
    }
    zr_free(id);
    zr__rendered_free(&r);
    zr__chat_close(&chat);
    zr_tokenizer_close(&tokenizer);
}

#define NO(id) (-1 - (id))
#define USER NO(START), NO('u'), NO('s'), NO('e'), NO('r'), NO('\n')
#define ANSWER NO(START), NO('a'), NO('s'), NO('s'), NO('i'), NO('s'), NO('t'), NO('a'), NO('n'), NO('t'), NO('\n')

static void tokens_of_answers_count(void **state)
{
    (void)state;
    const int32_t one[] = {USER, NO(256), NO(END), NO('\n'), ANSWER, 256, 'c', END, NO('\n')};
    encodes("u:ab;a:abc;", one, sizeof(one) / sizeof(one[0]));
    /* one token of two newlines; the first newline belongs to the template */
    const int32_t straddles[] = {USER,      NO('q'), NO(END), NO('\n'), NO(START), NO('a'), NO('s'),
                                 NO('s'),   NO('i'), NO('s'), NO('t'),  NO('a'),   NO('n'), NO('t'),
                                 NO(LINES), '\n',    'c',     END,      NO('\n')};
    encodes("u:q;a:\n\nc;", straddles, sizeof(straddles) / sizeof(straddles[0]));
    /* names of control tokens in a message are ordinary text, and do not end the message */
    const int32_t other[] = {USER,    NO('<'), NO('|'), NO('i'), NO('m'), NO('_'),  NO('e'), NO('n'),
                             NO('d'), NO('|'), NO('>'), NO(256), NO(END), NO('\n'), ANSWER,  'x',
                             '<',     '|',     'i',     'm',     '_',     's',      't',     'a',
                             'r',     't',     '|',     '>',     END,     NO('\n')};
    encodes("u:<|im_end|>ab;a:x<|im_start|>;", other, sizeof(other) / sizeof(other[0]));
}

/* The time to find the names is proportional to the text. */
static void many_names_of_control_tokens(void **state)
{
    (void)state;
    enum { NAMES = 20000 };
    static const char name[] = "<|im_end|>";
    const int64_t bytes = NAMES * (int64_t)strlen(name);
    char *text = malloc((size_t)bytes + 1);
    for (int64_t i = 0; i < bytes; i++) text[i] = name[i % (int64_t)strlen(name)];
    zr__talk talk = {0};
    zr__chat chat = form("chatml");
    zr_tokenizer *tokenizer = NULL;
    zr__rendered r = {0};
    int32_t *id = NULL;
    int64_t room = 0, n = 0, ends = 0, brackets = 0;
    const char *reason = NULL;
    make_tokenizer("t");
    assert_int_equal(zr_tokenizer_open(in_tempdir("t"), &tokenizer), ZR_OK);
    assert_int_equal(zr__talk_say(&talk, "user", text, bytes), ZR_OK);
    assert_int_equal(zr__talk_say(&talk, "assistant", "x", 1), ZR_OK);
    talk.turn[1].trains = true;
    assert_int_equal(zr__chat_render(&chat, &talk, false, &r, &reason), ZR_OK);
    assert_int_equal(zr__rendered_encode(&r, &chat, tokenizer, &id, &room, &n), ZR_OK);
    for (int64_t i = 0; i < n; i++) {
        ends += (id[i] & INT32_MAX) == END;
        brackets += (id[i] & INT32_MAX) == '<';
    }
    assert_int_equal(ends, 2);
    assert_int_equal(brackets, NAMES);
    zr_free(id);
    zr__rendered_free(&r);
    zr__chat_close(&chat);
    zr_tokenizer_close(&tokenizer);
    zr__talk_clear(&talk);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(chatml),
                                       cmocka_unit_test(many_turns),
                                       cmocka_unit_test(qwen3_reasons_in_the_last_turn),
                                       cmocka_unit_test(llama),
                                       cmocka_unit_test(mistral),
                                       cmocka_unit_test(templates_are_read_or_refused),
                                       cmocka_unit_test(answers_of_other_templates),
                                       cmocka_unit_test(tokens_of_answers_count),
                                       cmocka_unit_test(many_names_of_control_tokens)};
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
