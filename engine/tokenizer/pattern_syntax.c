/* Differences of Oniguruma and PCRE2, and how they are rewritten (Oniguruma doc/RE, PCRE2 pcre2pattern(3)):
 *   \s \S      PCRE2's has U+180E, which is no white space any more      -> \p{White_Space}, \P{White_Space}
 *   \w \W      PCRE2's lacks marks and joins letters and numbers its way -> a class of properties
 *   \h \H      a hexadecimal digit                                       -> a class
 *   \v         U+000B alone                                              -> \x{0b}
 *   \uHHHH     not in PCRE2                                              -> \x{HHHH}
 *   \p{Han}    a script, without PCRE2's script extensions               -> \p{sc:Han}
 *   X{n,m}+    a repeated interval, not a possessive one                 -> (?:X{n,m})+
 *   X{,m}      from 0 on                                                 -> X{0,m}
 *   ^ $        at every line                                             (PCRE2_MULTILINE in pattern.c)
 * Refused: back references, named and absent groups, conditions, inline options other than (?i:...), nested and
 * intersected classes, POSIX brackets, \b \B \G \K \R \X \Z. */
#include "tokenizer/pattern_syntax.h"

#include "base/utf8.h"

#include <string.h>

enum { DEPTH = 64 };

struct translator {
    const char *at, *end;
    struct text *out;
    struct error *error;
    size_t atom;            /* offset of the latest atom in *out */
    bool quantifiable;      /* the latest item was an atom */
    size_t groups[DEPTH];   /* offsets of the open groups */
    bool assertions[DEPTH]; /* which of them are look-arounds, which may not be repeated */
    int depth;
};

static enum status refuse(struct translator *t, const char *what)
{
    int left = (int)(t->end - t->at < 12 ? t->end - t->at : 12);
    return error_set(t->error, STATUS_UNSUPPORTED, "regular expression uses %s at \"%.*s\", which deltaq does not do",
                     what, left, t->at);
}

static enum status put(struct translator *t, const char *bytes)
{
    return text_append(t->out, bytes, strlen(bytes), t->error);
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* \xHH, \x{H...}, \uHHHH; `at` is behind the x or u. */
static enum status hexadecimal(struct translator *t, char kind)
{
    bool braced = kind == 'x' && t->at < t->end && *t->at == '{';
    const char *digits = t->at + (braced ? 1 : 0), *end = digits;
    while (end < t->end && end - digits < (braced ? 6 : kind == 'x' ? 2 : 4) && is_hex(*end)) end++;
    bool whole = braced ? end > digits && end < t->end && *end == '}' : end - digits == (kind == 'x' ? 2 : 4);
    bool byte = kind == 'x' && !braced && whole && *digits > '7'; /* a byte of UTF-8 there, a character in PCRE2 */
    if (!whole || byte) return refuse(t, "a hexadecimal escape");
    enum status status = text_format(t->out, t->error, "\\x{%.*s}", (int)(end - digits), digits);
    t->at = end + (braced ? 1 : 0);
    return status;
}

/* \p{Name}, \P{Name}, \p{^Name}; `at` is behind the p. */
static enum status property(struct translator *t, char kind)
{
    const char *name = t->at + 1, *close = t->at < t->end ? memchr(t->at, '}', (size_t)(t->end - t->at)) : NULL;
    if (close == NULL || *t->at != '{') return refuse(t, "a property without braces");
    bool negated = name < close && *name == '^';
    if (negated) name++;
    size_t size = (size_t)(close - name);
    bool general = size == 1 || (size == 2 && is_letter(name[1])); /* L, Lu, ... */
    if (size == 0 || size > 40 || (size == 1 && strchr("LMNPSZC", *name) == NULL))
        return refuse(t, "an unknown property");
    for (size_t i = 0; i < size; i++) {
        if (!is_letter(name[i]) && name[i] != '_') return refuse(t, "an unknown property");
    }
    bool other = (kind == 'P') != negated;
    enum status status =
        text_format(t->out, t->error, "\\%c{%s%.*s}", other ? 'P' : 'p', general ? "" : "sc:", (int)size, name);
    t->at = close + 1;
    return status;
}

struct escape {
    char name;
    const char *outside, *inside; /* rewritten form outside and inside a class; NULL: none */
};

/* Oniguruma takes these six too, below U+0100 and outside a class. */
#define LATIN_NUMBERS "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"
#define WORD          "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
static const struct escape escapes[] = {
    {'s', "\\p{White_Space}", "\\p{White_Space}"},
    {'S', "\\P{White_Space}", "\\P{White_Space}"},
    {'d', "\\p{Nd}", "\\p{Nd}"},
    {'D', "\\P{Nd}", "\\P{Nd}"},
    {'w', "[" WORD LATIN_NUMBERS "]", WORD},
    {'W', "[^" WORD LATIN_NUMBERS "]", NULL},
    {'h', "[0-9A-Fa-f]", "0-9A-Fa-f"},
    {'H', "[^0-9A-Fa-f]", NULL},
    {'r', "\\r", "\\r"},
    {'n', "\\n", "\\n"},
    {'t', "\\t", "\\t"},
    {'f', "\\f", "\\f"},
    {'a', "\\a", "\\a"},
    {'e', "\\e", "\\e"},
    {'v', "\\x{0b}", "\\x{0b}"},
};

/* `at` is behind the backslash. */
static enum status escape(struct translator *t, bool in_class)
{
    if (t->at >= t->end) return refuse(t, "a backslash at its end");
    char name = *t->at++;
    if (name == 'x' || name == 'u') return hexadecimal(t, name);
    if (name == 'p' || name == 'P') return property(t, name);
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++) {
        const char *form = in_class ? escapes[i].inside : escapes[i].outside;
        if (escapes[i].name == name && form != NULL) return put(t, form);
    }
    t->at--;
    if (is_letter(name) || (name >= '0' && name <= '9')) return refuse(t, "an escape");
    size_t width = utf8_width(name);
    t->at += width;
    if (width > 1) return text_append(t->out, t->at - width, width, t->error);
    return text_format(t->out, t->error, "\\%c", name);
}

/* `at` is behind the opening bracket. */
static enum status class(struct translator *t) {
    enum status status = put(t, "[");
    if (status == STATUS_OK && t->at < t->end && *t->at == '^'){status = put(t, "^"); t->at++;}
if (t->at < t->end && *t->at == ']') return refuse(t, "a class that begins with a bracket");
while (status == STATUS_OK && t->at < t->end && *t->at != ']') {
    if (*t->at == '[') return refuse(t, "a nested class");
    if (*t->at == '&' && t->end - t->at > 1 && t->at[1] == '&') return refuse(t, "an intersection of classes");
    if (*t->at == '\\') {
        t->at++;
        status = escape(t, true);
    } else {
        size_t width = utf8_width(*t->at);
        status = text_append(t->out, t->at, width, t->error);
        t->at += width;
    }
}
if (status != STATUS_OK) return status;
if (t->at >= t->end) return refuse(t, "a class without its end");
t->at++;
return put(t, "]");
}

/* `at` is behind the opening parenthesis. */
static enum status open_group(struct translator *t)
{
    static const char *const forms[] = {"?:", "?=", "?!", "?<=", "?<!", "?>", "?i:", "?-i:", NULL};
    if (t->depth == DEPTH) return refuse(t, "too many groups");
    t->groups[t->depth] = t->out->size;
    t->assertions[t->depth] = false;
    if (t->at < t->end && *t->at == '?') {
        int i = 0;
        while (forms[i] != NULL &&
               ((size_t)(t->end - t->at) < strlen(forms[i]) || strncmp(t->at, forms[i], strlen(forms[i])) != 0))
            i++;
        if (forms[i] == NULL) return refuse(t, "a group");
        t->assertions[t->depth] = i >= 1 && i <= 4;
        t->at += strlen(forms[i]);
        t->depth++;
        enum status status = put(t, "(");
        return status == STATUS_OK ? put(t, forms[i]) : status;
    }
    t->depth++;
    return put(t, "(?:"); /* captures are not used */
}

/* Puts the latest atom into a group. */
static enum status wrap_atom(struct translator *t)
{
    enum status status = put(t, "(?:)");
    if (status != STATUS_OK) return status;
    char *atom = t->out->bytes + t->atom;
    size_t size = t->out->size - t->atom - 4;
    memmove(atom + 3, atom, size);
    memcpy(atom, "(?:", 3);
    atom[size + 3] = ')';
    return STATUS_OK;
}

/* Moves `at` over digits with at most one comma between them; *comma: where it is, or NULL. */
static void interval_bounds(struct translator *t, const char **comma)
{
    const char *low = t->at;
    *comma = NULL;
    for (; t->at < t->end && t->at - low < 12; t->at++) {
        const bool digit = *t->at >= '0' && *t->at <= '9';
        if (!digit && (*t->at != ',' || *comma != NULL)) return;
        if (!digit) *comma = t->at;
    }
}

/* `at` is at an opening brace: {n}, {n,}, {n,m} or {,m}. */
static enum status interval(struct translator *t)
{
    const char *low = ++t->at, *comma;
    interval_bounds(t, &comma);
    bool empty = t->at == low || (comma == low && t->at == low + 1);
    if (empty || t->at >= t->end || *t->at != '}') return refuse(t, "a brace that is no interval");
    enum status status = text_format(t->out, t->error, "{%s%.*s}", comma == low ? "0" : "", (int)(t->at - low), low);
    t->at++;
    if (status != STATUS_OK || t->at >= t->end) return status;
    if (*t->at == '?' && comma == NULL) return refuse(t, "a lazy fixed interval");
    if (*t->at == '?') {
        t->at++;
        return put(t, "?");
    }
    while (status == STATUS_OK && t->at < t->end && (*t->at == '+' || *t->at == '*')) {
        if ((status = wrap_atom(t)) == STATUS_OK) status = text_append(t->out, t->at++, 1, t->error);
    }
    return status;
}

static enum status quantifier(struct translator *t)
{
    if (!t->quantifiable) return refuse(t, "a quantifier of nothing");
    t->quantifiable = false;
    if (*t->at == '{') return interval(t);
    enum status status = text_append(t->out, t->at++, 1, t->error);
    if (status == STATUS_OK && t->at < t->end && (*t->at == '?' || *t->at == '+'))
        status = text_append(t->out, t->at++, 1, t->error);
    return status;
}

static enum status element(struct translator *t)
{
    char c = *t->at;
    if (c == '*' || c == '+' || c == '?' || c == '{') return quantifier(t);
    t->atom = t->out->size;
    t->quantifiable = c != '(' && c != '|' && c != '^' && c != '$';
    if (c == ')') {
        if (t->depth == 0) return refuse(t, "an unopened group");
        t->atom = t->groups[--t->depth];
        t->quantifiable = !t->assertions[t->depth];
    }
    size_t width = utf8_width(c);
    t->at += width;
    if (c == '\\' && t->at < t->end && (*t->at == 'A' || *t->at == 'z')) {
        t->quantifiable = false;
        return text_append(t->out, t->at++ - 1, 2, t->error);
    }
    if (c == '\\') return escape(t, false);
    if (c == '[') return class(t);
    if (c == '(') return open_group(t);
    return text_append(t->out, t->at - width, width, t->error);
}

enum status pattern_syntax_translate(const char *pattern, size_t bytes, struct text *out, struct error *error)
{
    struct translator t = {.at = pattern, .end = pattern + bytes, .out = out, .error = error};
    enum status status = STATUS_OK;
    if (bytes > 65536)
        return error_set(error, STATUS_UNSUPPORTED, "regular expression has %zu bytes, at most 65536 are read", bytes);
    while (status == STATUS_OK && t.at < t.end) status = element(&t);
    if (status == STATUS_OK && t.depth != 0) return refuse(&t, "a group without its end");
    return status;
}
