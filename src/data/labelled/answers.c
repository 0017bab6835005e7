/* Finds the answers of a model to questions, from the logits of their samples. */
#include "base/core/grow.h"
#include "base/json/json_write.h"
#include "base/number/finite.h"
#include "data/labelled/final.h"
#include "data/labelled/labelled.h"
#include "data/labelled/words.h"
#include "data/tokenizer/tokenizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A token of a sample, and its logit as the first or the last token of the answer. */
typedef struct choice {
    int32_t token;
    float logit;
} choice;

/* An answer: its sample, and its first and last token in the sample. */
typedef struct candidate {
    int64_t number; /* number in the order of finding, which decides between candidates with equal sums of logits */
    int64_t sample;
    choice start, end;
} candidate;

struct zr__answers {
    zr_labelled *labelled;
    const zr__questions *questions;
    const zr__bert *bert;
    int64_t n_best, most_tokens; /* arguments of zr__answers_open */
    int64_t kept;         /* number of best tokens to keep for each sample: the minimum of n_best and the row length */
    choice *best;         /* for each sample: the `kept` best first tokens, then the `kept` best last tokens */
    choice *null;         /* for each sample: the logits of [CLS] as the first and the last token */
    bool *added;          /* for each sample: whether its logits have been added */
    double threshold;     /* zr__answers_threshold */
    int64_t *number;      /* buffer for the samples of a row */
    zr__classes *classes; /* for comparing answers */
    /* Results for the question of the last call of zr__answers_get: */
    zr__words words;
    candidate *candidate;
    int64_t candidates, room;
    zr__text texts; /* texts of the answers, each terminated by '\0' */
    int64_t *text;  /* offset in `texts` of each answer */
    zr__answer *list;
    int64_t n;
    double null_score; /* logits of [CLS], in the sample where their sum is least */
};

/* ---- logits ---------------------------------------------------------------------------------- */

static choice *best_of(const zr__answers *a, int64_t sample, bool end)
{
    return a->best + (2 * sample + end) * a->kept;
}

/* Return the number of best tokens that are kept for a sample. */
static int64_t n_best_of(const zr__answers *a, int64_t sample)
{
    const int64_t n = zr__labelled_length(&a->questions->list->sample[sample]);
    return n < a->kept ? n : a->kept;
}

/* Put the n largest of the logits[2 * i] of `length` tokens into `best`. Equal logits keep the order of their tokens.
 */
static void choose_best(const float *logits, int64_t length, int64_t n, choice *best)
{
    int64_t have = 0;
    for (int64_t i = 0; i < length; i++) {
        const float logit = logits[2 * i];
        int64_t at = have;
        while (at > 0 && best[at - 1].logit < logit) at--;
        if (at == n) continue;
        have += have < n;
        memmove(best + at + 1, best + at, (size_t)(have - at - 1) * sizeof(*best));
        best[at] = (choice){(int32_t)i, logit};
    }
}

zr_status zr__answers_add(zr__answers *a, int64_t row, const float *logits)
{
    int64_t n = 0;
    ZR_TRY(zr__labelled_samples(a->labelled, row, a->number, &n));
    for (int64_t i = 0; i < n; i++) {
        const int64_t sample = a->number[i], length = zr__labelled_length(&a->questions->list->sample[sample]);
        ZR_CHECK(zr__finite_all(logits, 2 * length), ZR_ERR_DATA,
                 "row %lld: a logit of an answer's first or last token is not finite, so the model has diverged",
                 (long long)row);
        choose_best(logits, length, n_best_of(a, sample), best_of(a, sample, false));
        choose_best(logits + 1, length, n_best_of(a, sample), best_of(a, sample, true));
        a->null[2 * sample] = (choice){0, logits[0]};
        a->null[2 * sample + 1] = (choice){0, logits[1]};
        a->added[sample] = true;
        logits += 2 * length;
    }
    return ZR_OK;
}

/* ---- candidates ------------------------------------------------------------------------------ */

/* Return whether a sample gives a token of the text the most context among all samples of its question. As in BERT's
 * run_squad.py, the context is the smaller number of tokens before or after the token in the window, plus 0.01 times
 * the length of the window. */
static bool has_most_context(const zr__answers *a, const zr__question *question, int64_t sample, int64_t token)
{
    double best_score = -1;
    int64_t best = -1;
    for (int64_t i = question->sample; i < question->sample + question->samples; i++) {
        const zr__labelled_sample *s = &a->questions->list->sample[i];
        const int64_t left = token - s->b, right = s->b + s->b_n - 1 - token;
        if (left < 0 || right < 0) continue;
        const double score = (double)(left < right ? left : right) + 0.01 * s->b_n;
        if (best >= 0 && score <= best_score) continue;
        best_score = score;
        best = i;
    }
    return best == sample;
}

/* Return whether a token of a sample belongs to the text that the question is about. */
static bool is_in_text(const zr__labelled_sample *sample, int32_t token)
{
    const int32_t second = zr__labelled_second(sample);
    return token >= second && token < second + sample->b_n;
}

static zr_status add_candidates(zr__answers *a, const zr__question *question, int64_t sample)
{
    const zr__labelled_sample *s = &a->questions->list->sample[sample];
    const int64_t n = n_best_of(a, sample);
    for (int64_t i = 0; i < n; i++) {
        const choice start = best_of(a, sample, false)[i];
        const int64_t token = s->b + start.token - zr__labelled_second(s);
        if (!is_in_text(s, start.token) || !has_most_context(a, question, sample, token)) continue;
        for (int64_t k = 0; k < n; k++) {
            const choice end = best_of(a, sample, true)[k];
            const int32_t length = end.token - start.token + 1;
            if (!is_in_text(s, end.token) || length < 1 || length > a->most_tokens) continue;
            ZR_GROW(a->candidate, a->room, a->candidates + 1, "answers");
            a->candidate[a->candidates] = (candidate){a->candidates, sample, start, end};
            a->candidates++;
        }
    }
    return ZR_OK;
}

/* Add the candidate of no answer: [CLS] of the sample where it has the least sum of logits. */
static zr_status add_null(zr__answers *a, const zr__question *question)
{
    int64_t least = question->sample;
    a->null_score = INFINITY;
    for (int64_t i = question->sample; i < question->sample + question->samples; i++) {
        const double score = (double)a->null[2 * i].logit + (double)a->null[2 * i + 1].logit;
        if (score < a->null_score) least = i;
        if (score < a->null_score) a->null_score = score;
    }
    ZR_GROW(a->candidate, a->room, a->candidates + 1, "answers");
    a->candidate[a->candidates] = (candidate){a->candidates, least, a->null[2 * least], a->null[2 * least + 1]};
    a->candidates++;
    return ZR_OK;
}

static double sum_of(const candidate *c)
{
    return (double)c->start.logit + (double)c->end.logit;
}

static int compare(const void *left, const void *right)
{
    const candidate *a = left, *b = right;
    if (sum_of(a) != sum_of(b)) return sum_of(a) > sum_of(b) ? -1 : 1;
    return a->number < b->number ? -1 : 1;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Append the text of tokens: their names, separated by spaces. A name that begins with ## continues the word before it.
 */
static zr_status say(const zr__answers *a, const int32_t *token, int64_t n, zr__text *out)
{
    ZR_AUTO(zr__text_clear) zr__text names = {0};
    for (int64_t i = 0; i < n; i++) {
        const char *name = NULL;
        int64_t bytes = 0;
        ZR_TRY(zr_tokenizer_decode(a->questions->list->tokenizer, token[i], &name, &bytes));
        if (i > 0 && bytes >= 2 && memcmp(name, "##", 2) == 0) {
            name += 2;
            bytes -= 2;
        } else if (i > 0) {
            zr__text_append(&names, " ", 1);
        }
        zr__text_append(&names, name, (size_t)bytes);
    }
    if (names.data) zr__join_split(names.data, out);
    out->failed |= names.failed;
    return ZR_OK;
}

/* Append the text of an answer to a->texts. */
static zr_status add_text(zr__answers *a, const zr__question *question, const candidate *c)
{
    const zr__labelled_sample *s = &a->questions->list->sample[c->sample];
    const int64_t first = s->b - question->token + c->start.token - zr__labelled_second(s),
                  n = c->end.token - c->start.token + 1;
    ZR_AUTO(zr__text_clear) zr__text said = {0}, original = {0};
    ZR_TRY(say(a, a->words.token + first, n, &said));
    zr__words_join(&a->words, zr__words_of_token(&a->words, first), zr__words_of_token(&a->words, first + n - 1) + 1,
                   &original);
    ZR_CHECK(!said.failed && !original.failed, ZR_ERR_MEMORY, "no memory for an answer");
    ZR_TRY(zr__final_text(a->bert, said.data ? said.data : "", original.data, &a->texts));
    zr__text_append(&a->texts, "", 1);
    return ZR_OK;
}

/* Return whether a candidate stands for no answer. Its first token is [CLS]. */
static bool is_null(const candidate *c)
{
    return c->start.token == 0;
}

/* Take a candidate as the next answer, unless its text has been seen. */
static zr_status take_answer(zr__answers *a, const zr__question *question, const candidate *c)
{
    bool seen = false;
    a->text[a->n] = (int64_t)a->texts.length;
    if (is_null(c))
        zr__text_append(&a->texts, "", 1);
    else
        ZR_TRY(add_text(a, question, c));
    ZR_CHECK(!a->texts.failed, ZR_ERR_MEMORY, "no memory for answers");
    for (int64_t k = 0; k < a->n && !is_null(c); k++)
        seen = seen || strcmp(a->texts.data + a->text[k], a->texts.data + a->text[a->n]) == 0;
    if (seen)
        a->texts.length = (size_t)a->text[a->n];
    else
        a->list[a->n++] = (zr__answer){.start = c->start.logit, .end = c->end.logit};
    return ZR_OK;
}

/* Take the best candidates with different texts, and the candidate of no answer in any case. */
static zr_status choose_answers(zr__answers *a, const zr__question *question)
{
    const candidate *null = NULL; /* the candidate of no answer, if it has not been taken */
    a->n = 0;
    a->texts.length = 0;
    for (int64_t i = 0; i < a->candidates; i++) {
        if (is_null(&a->candidate[i])) null = &a->candidate[i];
        if (a->n >= a->n_best) continue;
        ZR_TRY(take_answer(a, question, &a->candidate[i]));
        if (null == &a->candidate[i]) null = NULL;
    }
    if (null) ZR_TRY(take_answer(a, question, null));
    for (int64_t i = 0; i < a->n; i++) a->list[i].text = a->texts.data + a->text[i];
    if (a->n > (a->questions->may_lack ? 1 : 0)) return ZR_OK;
    if (a->n == 1) a->list[1] = a->list[0];
    a->list[0] = (zr__answer){.text = "empty"}; /* as transformers does */
    a->n++;
    return ZR_OK;
}

static void compute_probabilities(zr__answers *a)
{
    double sum = 0, most = -INFINITY;
    for (int64_t i = 0; i < a->n; i++) most = fmax(most, (double)a->list[i].start + (double)a->list[i].end);
    for (int64_t i = 0; i < a->n; i++) sum += exp((double)a->list[i].start + (double)a->list[i].end - most);
    for (int64_t i = 0; i < a->n; i++)
        a->list[i].probability = exp((double)a->list[i].start + (double)a->list[i].end - most) / sum;
}

zr_status zr__answers_get(zr__answers *a, int64_t number, const char **id, const zr__answer **list, int64_t *n)
{
    const zr__questions *q = a->questions;
    ZR_CHECK(number >= 0 && number < q->n, ZR_ERR_ARG, "the question is %lld; it must be from 0 to %lld",
             (long long)number, (long long)q->n - 1);
    const zr__question *question = &q->question[number];
    a->candidates = 0;
    for (int64_t i = question->sample; i < question->sample + question->samples; i++) {
        ZR_CHECK(a->added[i], ZR_ERR_STATE, "the logits of sample %lld, of question %s, have not been added",
                 (long long)i, ZR_SHOWN(q->strings.data + question->id));
        ZR_TRY(add_candidates(a, question, i));
    }
    if (q->may_lack) ZR_TRY(add_null(a, question));
    if (a->candidates > 0) qsort(a->candidate, (size_t)a->candidates, sizeof(*a->candidate), compare);
    ZR_TRY(zr__words_divide(&a->words, q->list, q->strings.data + question->text));
    ZR_TRY(choose_answers(a, question));
    compute_probabilities(a);
    *id = q->strings.data + question->id;
    *list = a->list;
    *n = a->n;
    return ZR_OK;
}

/* ---- results --------------------------------------------------------------------------------- */

void zr__answers_threshold(zr__answers *a, double threshold)
{
    a->threshold = threshold;
}

/* The best answer to a question, and the logits of no answer minus its logits. */
typedef struct pick {
    const char *id, *text;
    double odds;
} pick;

/* Find the best answer other than "". In data whose questions have answers, `odds` is -INFINITY. */
static zr_status pick_answer(zr__answers *a, int64_t question, pick *out)
{
    const zr__answer *list = NULL;
    int64_t n = 0, i = 0;
    ZR_TRY(zr__answers_get(a, question, &out->id, &list, &n));
    while (a->questions->may_lack && i < n - 1 && !list[i].text[0]) i++;
    out->text = list[i].text;
    out->odds = a->questions->may_lack ? a->null_score - (double)list[i].start - (double)list[i].end : -INFINITY;
    return ZR_OK;
}

zr_status zr__answers_json(zr__answers *a, char **json)
{
    zr__json_out out = {.spaced = true};
    zr_status st = ZR_OK;
    zr__json_open(&out, NULL, '{');
    for (int64_t i = 0; i < a->questions->n && st == ZR_OK; i++) {
        pick best;
        st = pick_answer(a, i, &best);
        zr__json_break(&out, "\n    ");
        if (st == ZR_OK) zr__json_add_text(&out, best.id, best.odds > a->threshold ? "" : best.text);
    }
    zr__json_break(&out, "\n");
    zr__json_close(&out, '}');
    zr__text_append(&out.text, "\n", 1);
    if (st == ZR_OK) return zr__text_take(&out.text, json);
    zr__text_clear(&out.text);
    return st;
}

/* The scores of an answer to a question. */
typedef struct judged {
    double exact, f1; /* 0 or 1; from 0 to 1 */
    double none;      /* F1 score of no answer */
    double odds;      /* pick.odds */
    bool lacks;       /* whether the question has no answer */
} judged;

/* Compare an answer with a right answer. In version 2.0, F1 is 1 if neither has words. */
static zr_status compare_with(const zr__answers *a, const char *text, const char *right, judged *out)
{
    bool exact = false;
    double f1 = 0;
    ZR_TRY(zr__answer_compare(a->classes, text, right, &exact, &f1));
    if (a->questions->may_lack && exact) f1 = 1;
    if (exact) out->exact = 1;
    if (f1 > out->f1) out->f1 = f1;
    return ZR_OK;
}

/* Compare an answer with all that are right. In version 2.0 right answers without words do not count, and "" is right
 * if no other answer is left. */
static zr_status judge_answer(const zr__answers *a, int64_t number, const char *text, judged *out)
{
    const zr__question *question = &a->questions->question[number];
    const char *right = a->questions->strings.data + question->answer;
    int64_t left = 0;
    out->exact = out->f1 = 0;
    out->lacks = question->answers == 0;
    for (int64_t k = 0; k < question->answers; k++, right += strlen(right) + 1) {
        judged none = {.exact = 0};
        if (a->questions->may_lack) ZR_TRY(compare_with(a, "", right, &none));
        if (none.exact > 0) continue;
        ZR_TRY(compare_with(a, text, right, out));
        left++;
    }
    return left > 0 || !a->questions->may_lack ? ZR_OK : compare_with(a, text, "", out);
}

static int by_odds(const void *left, const void *right)
{
    const judged *a = left, *b = right;
    return (a->odds > b->odds) - (a->odds < b->odds);
}

/* Find a threshold with the largest F1 score, halfway between the odds of two questions. `all` has the best answer to
 * each of n questions, other than "". */
static void find_threshold(judged *all, int64_t n, zr__answers_scored *scored)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += all[i].none; /* no question is answered */
    qsort(all, (size_t)n, sizeof(*all), by_odds);
    scored->best_f1 = sum;
    scored->best_threshold = all[0].odds - 1;
    for (int64_t i = 0; i < n; i++) {
        sum += all[i].f1 - all[i].none;
        if (sum <= scored->best_f1 || (i + 1 < n && all[i + 1].odds == all[i].odds)) continue;
        scored->best_f1 = sum;
        scored->best_threshold = i + 1 < n ? (all[i].odds + all[i + 1].odds) / 2 : all[i].odds + 1;
    }
    scored->best_f1 *= 100.0 / (double)n;
}

static double percent(double sum, int64_t n)
{
    return n > 0 ? 100.0 * sum / (double)n : 0;
}

zr_status zr__answers_score(zr__answers *a, zr__answers_scored *scored)
{
    const zr__questions *q = a->questions;
    ZR_AUTO_FREE judged *all = zr_alloc((size_t)q->n * sizeof(*all));
    double exact[2] = {0}, f1[2] = {0}; /* sums of questions with and without an answer */
    ZR_CHECK(all, ZR_ERR_MEMORY, "no memory for the scores of %lld answers", (long long)q->n);
    *scored = (zr__answers_scored){.questions = q->n};
    for (int64_t i = 0; i < q->n; i++) {
        pick best;
        judged its;
        ZR_TRY(pick_answer(a, i, &best));
        ZR_TRY(judge_answer(a, i, best.text, &all[i]));
        ZR_TRY(judge_answer(a, i, "", &its));
        all[i].none = its.f1;
        all[i].odds = best.odds;
        if (best.odds <= a->threshold) its = all[i];
        exact[its.lacks] += its.exact;
        f1[its.lacks] += its.f1;
        scored->lack += its.lacks;
    }
    const int64_t has = q->n - scored->lack;
    scored->exact = percent(exact[0] + exact[1], q->n);
    scored->f1 = percent(f1[0] + f1[1], q->n);
    scored->has_exact = percent(exact[0], has);
    scored->has_f1 = percent(f1[0], has);
    scored->no_exact = percent(exact[1], scored->lack);
    if (q->may_lack)
        find_threshold(all, q->n, scored);
    else
        scored->lack = -1;
    return ZR_OK;
}

/* ---- the object ------------------------------------------------------------------------------ */

static zr_status take_memory(zr__answers *a)
{
    const size_t samples = (size_t)a->questions->list->samples, n = (size_t)a->n_best;
    a->kept = a->n_best < a->questions->seq_length ? a->n_best : a->questions->seq_length;
    a->best = zr_alloc(2 * samples * (size_t)a->kept * sizeof(*a->best));
    a->added = zr_alloc(samples * sizeof(*a->added));
    a->number = zr_alloc((size_t)zr__labelled_row_samples(a->labelled) * sizeof(*a->number));
    a->text = zr_alloc((n + 2) * sizeof(*a->text)); /* "" and "empty" may be added */
    a->list = zr_alloc((n + 2) * sizeof(*a->list));
    a->null = zr_alloc(2 * samples * sizeof(*a->null));
    ZR_CHECK(a->best && a->null && a->added && a->number && a->text && a->list, ZR_ERR_MEMORY,
             "no memory for the %lld best tokens of %zu samples", (long long)a->kept, samples);
    memset(a->added, 0, samples * sizeof(*a->added));
    return zr__classes_open(&a->classes);
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Refuse questions with the same id, since ids name the answers in the file for SQuAD's script. */
static zr_status check_ids(const zr_labelled *labelled, const zr__questions *q)
{
    ZR_AUTO_FREE const char **id = zr_alloc((size_t)q->n * sizeof(*id));
    ZR_CHECK(id, ZR_ERR_MEMORY, "no memory for the ids of %lld questions", (long long)q->n);
    for (int64_t i = 0; i < q->n; i++) id[i] = q->strings.data + q->question[i].id;
    qsort(id, (size_t)q->n, sizeof(*id), compare_ids);
    for (int64_t i = 1; i < q->n; i++)
        ZR_CHECK(strcmp(id[i - 1], id[i]) != 0, ZR_ERR_DATA,
                 "%s: two questions have the id %s; give each question an id of its own",
                 ZR_SHOWN(zr_labelled_get_info(labelled).path), ZR_SHOWN(id[i]));
    return ZR_OK;
}

zr_status zr__answers_open(zr_labelled *labelled, int64_t n_best, int64_t max_answer_length, zr__answers **answers)
{
    const zr__questions *q = zr__labelled_questions(labelled);
    ZR_CHECK(q, ZR_ERR_ARG, "answers are given to questions, but the object has labelled texts");
    ZR_CHECK(n_best >= 0 && n_best <= 1 << 20 && max_answer_length >= 0, ZR_ERR_ARG,
             "n_best is %lld and max_answer_length %lld; they must be at least 1, or 0 for the default, and n_best at "
             "most 1048576",
             (long long)n_best, (long long)max_answer_length);
    ZR_TRY(check_ids(labelled, q));
    ZR_AUTO(zr__answers_close) zr__answers *a = zr_alloc(sizeof(*a));
    ZR_CHECK(a, ZR_ERR_MEMORY, "no memory for %zu bytes of answers", sizeof(*a));
    *a = (zr__answers){.labelled = labelled,
                       .questions = q,
                       .bert = zr__tokenizer_bert(q->list->tokenizer),
                       .n_best = n_best > 0 ? n_best : 20,
                       .most_tokens = max_answer_length > 0 ? max_answer_length : 30};
    ZR_TRY(take_memory(a));
    *answers = ZR_TAKE(a);
    return ZR_OK;
}

void zr__answers_close(zr__answers **answers)
{
    zr__answers *a = *answers;
    if (!a) return;
    zr__classes_close(&a->classes);
    zr__words_free(&a->words);
    zr__text_clear(&a->texts);
    zr_free(a->best);
    zr_free(a->null);
    zr_free(a->added);
    zr_free(a->number);
    zr_free(a->candidate);
    zr_free(a->text);
    zr_free(a->list);
    zr_free(a);
    *answers = NULL;
}
