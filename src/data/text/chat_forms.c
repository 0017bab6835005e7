/* Templates of the forms that zr knows by name. */
#include "data/text/chat_forms.h"

#include <stdio.h>
#include <string.h>

/* ---- ChatML ---------------------------------------------------------------------------------- */

#define CHATML_ASKS "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
#define CHATML                                                                                                         \
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor "             \
    "%}" CHATML_ASKS
/* with a system prompt for conversations without one */
#define CHATML_WITH(system)                                                                                            \
    "{% if messages[0].role != 'system' %}{{ '<|im_start|>system\\n" system "<|im_end|>\\n' }}{% endif %}" CHATML

/* Qwen3: the reasoning of answers after the last question stays. A user's message with the result of a tool is no
 * question. */
static const char qwen3[] =
    "{% set ns = namespace(question=messages | length - 1, found=false) %}"
    "{% for m in messages[::-1] %}"
    "{% if not ns.found and m.role == 'user' and not (m.content.startswith('<tool_response>') and "
    "m.content.endswith('</tool_response>')) %}"
    "{% set ns.found = true %}{% set ns.question = messages | length - 1 - loop.index0 %}"
    "{% endif %}{% endfor %}"
    "{% for m in messages %}"
    "{% if m.role == 'assistant' %}"
    "{% set reasoning = '' %}{% set answer = m.content %}"
    "{% if '</think>' in m.content %}"
    "{% set reasoning = m.content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].strip('\\n') %}"
    "{% set answer = m.content.split('</think>')[-1].lstrip('\\n') %}"
    "{% endif %}"
    "{{ '<|im_start|>assistant\\n' }}"
    "{% if loop.index0 > ns.question and (loop.last or reasoning) %}"
    "{{ '<think>\\n' + reasoning + '\\n</think>\\n\\n' + answer.lstrip('\\n') }}"
    "{% else %}{{ answer }}{% endif %}"
    "{{ '<|im_end|>\\n' }}"
    "{% else %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endif %}"
    "{% endfor %}" CHATML_ASKS;

/* ---- Llama 3 --------------------------------------------------------------------------------- */

#define LLAMA3_TURN(role, text) "{{ '<|start_header_id|>' + " role " + '<|end_header_id|>\\n\\n' + " text " }}"
#define LLAMA3_TURNS(messages)                                                                                         \
    "{% for m in " messages                                                                                            \
    " %}" LLAMA3_TURN("m.role", "m.content.strip() + '<|eot_id|>'") "{% endfor %}"                                     \
                                                                    "{% if add_generation_prompt %}" LLAMA3_TURN(      \
                                                                        "'assistant'", "''") "{% endif %}"

static const char llama3[] = "{{ bos_token }}" LLAMA3_TURNS("messages");

/* with a date before the system prompt */
static const char llama31[] =
    "{% set first = 1 if messages and messages[0].role == 'system' else 0 %}{{ bos_token }}" LLAMA3_TURN(
        "'system'", "'Cutting Knowledge Date: December 2023\\nToday Date: ' + strftime_now('%d %b %Y') + "
                    "'\\n\\n'") "{{ (messages[0].content.strip() if first else '') + '<|eot_id|>' "
                                "}}" LLAMA3_TURNS("messages[first:]");

/* ---- Llama 2 and Mistral --------------------------------------------------------------------- */

/* Roles must be in turn, after an optional system message. */
#define IN_TURN                                                                                                        \
    "{% set first = 1 if messages and messages[0].role == 'system' else 0 %}"                                          \
    "{% if first and messages | length == 1 %}{{ raise_exception('a system message alone; this chat template wants a " \
    "user\\'s message after it') }}{% endif %}"                                                                        \
    "{% for m in messages[first:] %}{% if m.role != ('user' if loop.index0 % 2 == 0 else 'assistant') %}"              \
    "{{ raise_exception('the roles are not in turn; this chat template wants an optional system message, then user, "  \
    "assistant, user, assistant ...') }}{% endif %}{% endfor %}"

static const char llama2[] =
    IN_TURN "{% for m in messages[first:] %}"
            "{% if m.role == 'assistant' %}{{ ' ' + m.content.strip() + ' ' + eos_token }}"
            "{% else %}"
            "{% set begun = '<<SYS>>\\n' + messages[0].content + '\\n<</SYS>>\\n\\n' if first and loop.first else '' %}"
            "{{ bos_token + '[INST] ' + (begun + m.content).strip() + ' [/INST]' }}"
            "{% endif %}{% endfor %}";

#define NO_SYSTEM                                                                                                      \
    "{% if messages and messages[0].role == 'system' %}{{ raise_exception('a system message, for which this chat "     \
    "template has no place') }}{% endif %}"
#define ENDS_WITH_USER                                                                                                 \
    "{% if first and messages[-1].role == 'assistant' %}{{ raise_exception('a system message, which this chat "        \
    "template drops if the last message is an answer; put its text into the first message of the user') }}{% endif %}"
/* `open` and `close` surround a user's message. The system prompt is in the first or last user message, by `place`. */
#define MISTRAL(checks, open, close, place, answer)                                                                    \
    checks "{{ bos_token }}{% for m in messages[first:] %}"                                                            \
           "{% if m.role == 'assistant' %}{{ " answer " + eos_token }}"                                                \
           "{% else %}{{ '" open "' + (messages[0].content + '\\n\\n' if first and loop." place                        \
           " else '') + m.content + '" close "' }}"                                                                    \
           "{% endif %}{% endfor %}"

/* ---- Alpaca ---------------------------------------------------------------------------------- */

/* The prompt of Stanford's Alpaca, for models without a chat template. A message of the user may have its text in two
 * parts, `instruction` and `input` (data/text/talk.c). A system prompt takes the place of the first sentences. */
static const char alpaca[] =
    "{% set ns = namespace(begun=false) %}"
    "{% for m in messages %}"
    "{% if m.role == 'system' %}{{ m.content + '\\n\\n' }}{% set ns.begun = true %}"
    "{% elif m.role == 'user' %}"
    "{% if not ns.begun %}"
    "{{ 'Below is an instruction that describes a task' }}"
    "{{ ', paired with an input that provides further context' if m.input else '' }}"
    "{{ '. Write a response that appropriately completes the request.\\n\\n' }}"
    "{% endif %}{% set ns.begun = true %}"
    "{{ '### Instruction:\\n' + (m.content if m.instruction is undefined else m.instruction) + '\\n\\n' }}"
    "{{ '### Input:\\n' + m.input + '\\n\\n' if m.input else '' }}"
    "{{ '### Response:' }}"
    "{% else %}"
    "{% generation %}{{ m.content + eos_token }}{% endgeneration %}{{ '' if loop.last else '\\n\\n' }}"
    "{% endif %}{% endfor %}";

/* ---- the table ------------------------------------------------------------------------------- */

#define IM .control = {"<|im_start|>", "<|im_end|>"}
#define HEADER                                                                                                         \
    .begin = "<|begin_of_text|>", .end = "<|eot_id|>",                                                                 \
    .control = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}
#define S .begin = "<s>", .end = "</s>"
static const zr__chat_form forms[] = {
    {"chatml", CHATML, .end = "<|im_end|>", IM},
    {"qwen2", CHATML_WITH("You are a helpful assistant."), .end = "<|im_end|>", IM},
    {"qwen2.5", CHATML_WITH("You are Qwen, created by Alibaba Cloud. You are a helpful assistant."),
     .end = "<|im_end|>", IM},
    {"qwen3", qwen3, .end = "<|im_end|>", IM},
    {"llama2", llama2, S},
    {"llama3", llama3, HEADER},
    {"llama3.1", llama31, HEADER},
    {"mistral", MISTRAL(NO_SYSTEM IN_TURN, "[INST] ", " [/INST]", "first", "m.content"), S},
    {"mistral-v1", MISTRAL(IN_TURN, " [INST] ", " [/INST]", "first", "' ' + m.content"), S},
    {"mistral-v3", MISTRAL(IN_TURN ENDS_WITH_USER, "[INST] ", "[/INST]", "last", "' ' + m.content.strip()"), S,
     .control = {"[INST]", "[/INST]"}},
    {"mistral-tekken", MISTRAL(IN_TURN ENDS_WITH_USER, "[INST]", "[/INST]", "last", "m.content"), S,
     .control = {"[INST]", "[/INST]"}},
    {"alpaca", alpaca, .plain = true},
};
enum { FORMS = sizeof(forms) / sizeof(forms[0]) };

const zr__chat_form *zr__chat_form_named(const char *name)
{
    for (int i = 0; i < FORMS; i++)
        if (strcmp(forms[i].name, name) == 0) return &forms[i];
    return NULL;
}

const char *zr__chat_form_names(char *out, unsigned long size)
{
    size_t used = 0;
    for (int i = 0; i < FORMS && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s",
                                 i == 0          ? ""
                                 : i + 1 < FORMS ? ", "
                                                 : " or ",
                                 forms[i].name);
    return out;
}
