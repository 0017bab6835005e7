/* Applies the rules of a format, from their settings to ours or back. */
#include "systems/formats/formats.h"

#include <stdio.h>

enum { NAME = 128, VALUE = 512 };

/* ---- patterns -------------------------------------------------------------------------------- */

typedef enum kind { IS, GIVEN, ABSENT, DIFFERS } kind;

/* A part of one side of a rule. */
typedef struct part {
    kind kind;
    bool condition;
    char name[NAME], value[VALUE];
} part;

/* Read the next part of a side. Return the rest of the side, or NULL at its end. */
static const char *next_part(const char *side, part *p)
{
    side += strspn(side, " ");
    if (!*side) return NULL;
    const size_t n = strcspn(side, " ");
    char text[NAME + VALUE];
    snprintf(text, sizeof(text), "%.*s", (int)n, side);
    const char *at = text;
    p->condition = *at == '?';
    at += p->condition;
    p->kind = *at == '!' ? ABSENT : GIVEN;
    at += p->kind == ABSENT;
    const size_t name = strcspn(at, "=!");
    snprintf(p->name, sizeof(p->name), "%.*s", (int)name, at);
    p->value[0] = '\0';
    if (at[name]) {
        p->kind = at[name] == '!' ? DIFFERS : IS;
        snprintf(p->value, sizeof(p->value), "%s", at + name + (p->kind == DIFFERS ? 2 : 1));
    }
    return side + n;
}

static bool is_glob(const char *word, size_t n, const char *name)
{
    if (word[n - 1] != '*') return strlen(name) == n && strncmp(word, name, n) == 0;
    return strncmp(word, name, n - 1) == 0;
}

/* Return whether a name is in a list of names separated by blanks, each of which may end with '*'. */
static bool is_listed(const char *list, const char *name)
{
    char plain[NAME];
    snprintf(plain, sizeof(plain), "%s", name);
    for (char *at = plain; *at; at++)
        if (*at == '_') *at = '-';
    for (const char *word = list; word && *word;) {
        const size_t n = strcspn(word, " ");
        char own[NAME];
        snprintf(own, sizeof(own), "%.*s", (int)n, word);
        for (char *at = own; *at; at++)
            if (*at == '_') *at = '-';
        if (n && is_glob(own, strlen(own), plain)) return true;
        word += n + strspn(word + n, " ");
    }
    return false;
}

/* Return whether a value is one of "a|b|c". */
static bool is_one_of(const char *value, const char *choices)
{
    for (const char *at = choices; *at;) {
        char one[VALUE];
        const size_t n = strcspn(at, "|");
        snprintf(one, sizeof(one), "%.*s", (int)n, at);
        if (zr__same_value(value, one)) return true;
        at += n + (at[n] == '|');
    }
    return false;
}

/* Return whether a part of a side holds among settings. `bound` receives the value for *. */
static bool holds(const zr__settings *list, const part *p, const char **bound)
{
    const zr__setting *s = zr__settings_find(list, p->name);
    if (p->kind == ABSENT) return !s;
    if (!s || (s->used && !p->condition)) return false;
    if (p->kind == GIVEN) return true;
    if (p->kind == DIFFERS) return !is_one_of(s->value, p->value);
    if (strcmp(p->value, "*") != 0) return is_one_of(s->value, p->value);
    *bound = s->value;
    return true;
}

/* Return whether the conditions of a side hold and, unless `only_conditions`, the rest of it. */
static bool side_holds(const zr__settings *list, const char *side, bool only_conditions, const char **bound)
{
    part p;
    while ((side = next_part(side, &p)))
        if ((p.condition || !only_conditions) && !holds(list, &p, bound)) return false;
    return true;
}

/* Return whether a rule holds: all of the side `from` and the conditions of the side `to`. *bound receives the value
 * that its * stands for. */
static bool rule_holds(const zr__settings *source, const char *from, const zr__settings *target, const char *to,
                       const char **bound)
{
    const char *ignored;
    return side_holds(source, from, false, bound) && side_holds(target, to, true, &ignored);
}

/* Mark the settings of a side as used. *first receives the first of them. */
static void use(zr__settings *list, const char *side, const zr__setting **first)
{
    part p;
    *first = NULL;
    while ((side = next_part(side, &p))) {
        if (p.condition) continue;
        for (int64_t i = 0; i < list->n; i++) {
            if (!zr__same_name(list->one[i].name, p.name)) continue;
            list->one[i].used = true;
            if (!*first) *first = &list->one[i];
        }
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Write a setting of a file for a message: its name, and its line if it is known. */
static const char *shown(const zr__setting *s, char text[NAME + 64])
{
    if (s->line > 0)
        snprintf(text, NAME + 64, "%s (line %d)", s->name, s->line);
    else
        snprintf(text, NAME + 64, "%s", s->name);
    return text;
}
#define SHOWN(s) shown((s), (char[NAME + 64]){0})

/* Check the settings of a side that a rule is about to use: none twice with different values, none left to a shell. */
static zr_status check_side(const zr__settings *list, const char *side, const char *name)
{
    part p;
    while ((side = next_part(side, &p))) {
        if (p.condition) continue;
        const zr__setting *s = zr__settings_find(list, p.name);
        ZR_CHECK(!strchr(s->value, '$'), ZR_ERR_CONFIG,
                 "%s: %s is %s, a variable that the text does not set; give its value", name, SHOWN(s), s->value);
        for (int64_t i = 0; i < list->n; i++)
            ZR_CHECK(!zr__same_name(list->one[i].name, p.name) || zr__same_value(list->one[i].value, s->value),
                     ZR_ERR_CONFIG, "%s: %s is %s, and %s is %s; keep one of them", name, SHOWN(s), s->value,
                     SHOWN(&list->one[i]), list->one[i].value);
    }
    return ZR_OK;
}

/* Return the setting of theirs that set one of ours. */
static const zr__setting *origin(const zr__settings *theirs, const zr__setting *own)
{
    return own->from ? zr__settings_find(theirs, own->from) : NULL;
}

/* Add the settings of a side to `to`. `from` is the setting that they come from. */
static zr_status add_side(zr__settings *to, const char *side, const char *bound, const zr__settings *source,
                          const zr__setting *from, const char *name)
{
    part p;
    while ((side = next_part(side, &p))) {
        if (p.condition) continue;
        const char *value = strcmp(p.value, "*") == 0 ? bound : p.value;
        p.value[strcspn(p.value, "|")] = '\0'; /* of several values, the first is written */
        const zr__setting *had = zr__settings_find(to, p.name);
        if (had && zr__same_value(had->value, value)) continue;
        if (had) {
            const zr__setting *first = origin(source, had);
            return ZR_FAIL(ZR_ERR_CONFIG,
                           "%s: %s and %s contradict each other: they make %s %s and %s; leave out one of them", name,
                           first ? SHOWN(first) : had->name, from ? SHOWN(from) : p.name, p.name, had->value, value);
        }
        ZR_TRY(zr__settings_add(to, p.name, value, from ? from->line : 0));
        to->one[to->n - 1].from = from ? from->name : NULL;
    }
    return ZR_OK;
}

/* Add what a format means where it says nothing, unless it said something. `begin`: only settings of ours whose names
 * begin with it. */
static zr_status add_standards(const zr__format *format, const zr__settings *theirs, const char *begin,
                               zr__settings *ours)
{
    const char *bound = NULL;
    for (const zr__rule *rule = format->rule; rule->theirs; rule++) {
        part p;
        if (rule->kind != ZR__RULE_STANDARD || !side_holds(theirs, rule->theirs, true, &bound) ||
            !side_holds(ours, rule->ours, true, &bound))
            continue;
        for (const char *side = rule->ours; (side = next_part(side, &p));)
            if (!p.condition && strncmp(p.name, begin, strlen(begin)) == 0 && !zr__settings_find(ours, p.name))
                ZR_TRY(zr__settings_add(ours, p.name, p.value, 0));
    }
    return ZR_OK;
}

/* Return whether a rule writes a setting of ours, whatever its value. */
static bool is_written(const zr__format *format, const char *name)
{
    for (const zr__rule *rule = format->rule; rule->theirs; rule++) {
        part p;
        if (rule->kind != ZR__RULE_BOTH && rule->kind != ZR__RULE_WRITE) continue;
        for (const char *side = rule->ours; (side = next_part(side, &p));)
            if (!p.condition && zr__same_name(p.name, name) && strcmp(p.value, "*") == 0) return true;
    }
    return false;
}

zr_status zr__format_options(const zr__format *format, zr__settings *ours)
{
    const zr__settings nothing = {0};
    ZR_AUTO(zr__settings_clear) zr__settings all = {0};
    for (int64_t i = 0; i < ours->n; i++) ZR_TRY(zr__settings_add(&all, ours->one[i].name, ours->one[i].value, 0));
    ZR_TRY(add_standards(format, &nothing, "with.", &all));
    for (int64_t i = ours->n; i < all.n; i++)
        if (!is_written(format, all.one[i].name)) ZR_TRY(zr__settings_add(ours, all.one[i].name, all.one[i].value, 0));
    return ZR_OK;
}

/* Return the name in the rules of a format, or in its idle names, that is nearest to an unknown one, or NULL. */
static const char *nearest(const zr__format *format, const char *name, char out[NAME])
{
    int least = 3;
    const char *found = NULL;
    for (const zr__rule *rule = format->rule; rule->theirs; rule++) {
        part p;
        for (const char *side = rule->theirs; (side = next_part(side, &p));) {
            const int distance = rule->kind == ZR__RULE_WRITE ? least : zr__text_distance(p.name, name);
            if (distance >= least) continue;
            least = distance;
            found = strcpy(out, p.name);
        }
    }
    return found;
}

/* Add a line with the unused settings that are in a list of names. */
static void list_known(zr__settings *theirs, const char *names, const char *what, zr__text *said)
{
    int n = 0;
    for (int64_t i = 0; i < theirs->n; i++) {
        zr__setting *s = &theirs->one[i];
        if (s->used || !is_listed(names, s->name)) continue;
        s->used = true;
        if (zr__settings_find(theirs, s->name) == s) zr__text_add(said, "%s%s", n++ ? ", " : what, s->name);
    }
    if (n) zr__text_add(said, "\n");
}

/* Fail for all settings that are neither used nor listed. */
static zr_status check_rest(const zr__format *format, const zr__settings *theirs, const char *name)
{
    ZR_AUTO(zr__text_clear) zr__text unknown = {0};
    for (int64_t i = 0; i < theirs->n; i++) {
        const zr__setting *s = &theirs->one[i];
        char near[NAME];
        if (s->used) continue;
        zr__text_add(&unknown, "%s%s = %s", unknown.length ? "; " : "", SHOWN(s), ZR_SHOWN(s->value));
        if (nearest(format, s->name, near) && !zr__same_name(near, s->name))
            zr__text_add(&unknown, " (did you mean %s?)", near);
    }
    ZR_CHECK(!unknown.failed, ZR_ERR_MEMORY, "no memory for the settings of %s", name);
    ZR_CHECK(!unknown.length, ZR_ERR_CONFIG,
             "%s: zr does not know what this means to memory and time, so the plan would be of another run: %s; "
             "correct it or, if it changes neither, leave it out",
             name, unknown.data);
    return ZR_OK;
}

/* Take the settings of ours that a file carries beside those of its system. */
static zr_status take_own(zr__settings *theirs, zr__settings *ours)
{
    for (int64_t i = 0; i < theirs->n; i++) {
        zr__setting *s = &theirs->one[i];
        if (strncmp(s->name, "zr.", 3) != 0) continue;
        s->used = true;
        if (strcmp(s->name, "zr.about") == 0) continue; /* the comments of a file without comments */
        ZR_TRY(zr__settings_add(ours, s->name + 3, s->value, s->line));
        ours->one[ours->n - 1].from = s->name;
    }
    return ZR_OK;
}

/* Give the rest of the settings to zr's configuration, which checks them. */
static zr_status pass_rest(zr__settings *theirs, zr__settings *ours)
{
    for (int64_t i = 0; i < theirs->n; i++) {
        zr__setting *s = &theirs->one[i];
        if (s->used) continue;
        s->used = true;
        ZR_TRY(zr__settings_add(ours, s->name, s->value, s->line));
        ours->one[ours->n - 1].from = s->name;
    }
    return ZR_OK;
}

zr_status zr__format_read(const zr__format *format, zr__settings *theirs, const char *name, zr__settings *ours,
                          zr__text *said)
{
    ZR_TRY(take_own(theirs, ours));
    for (const zr__rule *rule = format->rule; rule->theirs; rule++) {
        const char *bound = NULL;
        const zr__setting *first;
        const bool reads = rule->kind == ZR__RULE_BOTH || rule->kind == ZR__RULE_READ || rule->kind == ZR__RULE_REFUSED;
        if (!reads || !rule_holds(theirs, rule->theirs, ours, rule->ours, &bound)) continue;
        ZR_TRY(check_side(theirs, rule->theirs, name));
        use(theirs, rule->theirs, &first);
        ZR_CHECK(rule->kind != ZR__RULE_REFUSED, ZR_ERR_UNSUPPORTED, "%s: %s is %s: %s", name, SHOWN(first),
                 ZR_SHOWN(first->value), rule->note);
        ZR_TRY(add_side(ours, rule->ours, bound, theirs, first, name));
    }
    ZR_TRY(add_standards(format, theirs, "", ours));
    list_known(theirs, format->idle, "no effect on the plan: ", said);
    list_known(theirs, format->timing, "change only times, in ways that are not priced: ", said);
    if (format->passes) ZR_TRY(pass_rest(theirs, ours));
    return check_rest(format, theirs, name);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* List the values that a format has for one of our settings. */
static void list_values(const zr__format *format, const char *name, zr__text *out)
{
    for (const zr__rule *rule = format->rule; rule->theirs; rule++) {
        part p;
        if (rule->kind == ZR__RULE_READ) continue;
        for (const char *side = rule->ours; (side = next_part(side, &p));)
            if (!p.condition && zr__same_name(p.name, name) && strcmp(p.value, "*") != 0)
                zr__text_add(out, "%s%s", out->length ? ", " : "", p.value);
    }
}

/* What a system does or does not do, whatever the program that uses it. */
static const char always[] =
    "zero_optimization.stage zero_optimization.offload_optimizer.device zero_optimization.offload_param.device "
    "zero_optimization.mics_shard_size parallel.*";

/* Fail for the first needed setting that no rule used. */
static zr_status check_needed(const zr__format *format, const zr__settings *ours)
{
    for (int64_t i = 0; i < ours->n; i++) {
        const zr__setting *s = &ours->one[i];
        ZR_AUTO(zr__text_clear) zr__text values = {0};
        if (s->used || s->plain || !(is_listed(always, s->name) || is_listed(format->needs, s->name))) continue;
        list_values(format, s->name, &values);
        ZR_CHECK(!values.length, ZR_ERR_UNSUPPORTED, "%s has no %s %s; it has %s", format->title, s->name, s->value,
                 values.data);
        return ZR_FAIL(ZR_ERR_UNSUPPORTED, "%s has nothing for %s, which is %s here", format->title, s->name, s->value);
    }
    return ZR_OK;
}

zr_status zr__format_write(const zr__format *format, zr__settings *ours, zr__settings *theirs, zr__text *notes)
{
    for (const zr__rule *rule = format->rule; rule->theirs; rule++) {
        const char *bound = NULL;
        const zr__setting *first;
        const bool silent = rule->kind == ZR__RULE_STANDARD;
        const bool writes = rule->kind != ZR__RULE_READ && rule->kind != ZR__RULE_REFUSED;
        if (!writes || !rule_holds(ours, rule->ours, theirs, rule->theirs, &bound)) continue;
        use(ours, rule->ours, &first);
        if (!silent) ZR_TRY(add_side(theirs, rule->theirs, bound, ours, first, format->title));
        if (!silent && rule->note) zr__text_add(notes, "%s\n", rule->note);
    }
    return check_needed(format, ours);
}

/* ---- formats --------------------------------------------------------------------------------- */

static const zr__format *const all[] = {&zr__format_deepspeed,  &zr__format_accelerate, &zr__format_fsdp2,
                                        &zr__format_torchtitan, &zr__format_megatron,   &zr__format_trainer};
enum { FORMATS = sizeof(all) / sizeof(*all) };

const zr__format *zr__format_at(int i)
{
    return i < FORMATS ? all[i] : NULL;
}

zr_status zr__format_find(const char *name, const zr__format **format)
{
    char names[256] = "";
    size_t used = 0;
    for (int i = 0; i < FORMATS; i++) {
        if (strcmp(all[i]->name, name) == 0) {
            *format = all[i];
            return ZR_OK;
        }
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "", all[i]->name);
    }
    return ZR_FAIL(ZR_ERR_ARG, "--emit is \"%s\"; expected one of %s", ZR_SHOWN(name), names);
}

bool zr__format_is_for(const zr__format *format, const char *system)
{
    const char *found = strstr(format->systems, system);
    return found && (found == format->systems || found[-1] == ' ') && strchr(" ", found[strlen(system)]);
}

const zr__format *zr__format_of(const zr__settings *theirs)
{
    const zr__format *best = NULL;
    int64_t most = 0;
    for (int f = 0; f < FORMATS; f++) {
        int64_t n = 0;
        for (int64_t i = 0; i < theirs->n; i++) n += is_listed(all[f]->signs, theirs->one[i].name);
        if (n <= most) continue;
        most = n;
        best = all[f];
    }
    return best;
}
