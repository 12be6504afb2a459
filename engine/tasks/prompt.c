#include "tasks/prompt.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

struct reader {
    const struct task *task;
    const struct record *record;
    struct prompt *out;
    struct error *error;
};

static enum status invalid(const struct reader *reader, const char *what)
{
    return error_set(reader->error, STATUS_INVALID, "%s: line %lld: %s; this is no record of %s", reader->record->file,
                     (long long)reader->record->line, what, reader->task->name);
}

/* ---- templates ---- */

static enum status filter_strip(struct phrase *text, size_t from, struct error *error)
{
    (void)error;
    phrase_strip(text, from);
    return STATUS_OK;
}

static enum status filter_strip_left(struct phrase *text, size_t from, struct error *error)
{
    (void)error;
    phrase_strip_left(text, from);
    return STATUS_OK;
}

static enum status filter_words(struct phrase *text, size_t from, struct error *error)
{
    (void)error;
    for (size_t i = from; i < text->size; i++)
        if (text->bytes[i] == '_') text->bytes[i] = ' ';
    return STATUS_OK;
}

static enum status filter_before(struct phrase *text, size_t from, struct error *error)
{
    (void)error;
    phrase_before_blank(text, from);
    return STATUS_OK;
}

static enum status filter_after(struct phrase *text, size_t from, struct error *error)
{
    (void)error;
    phrase_after_blank(text, from);
    return STATUS_OK;
}

static const struct {
    const char *name;
    enum status (*apply)(struct phrase *text, size_t from, struct error *error);
} filters[] = {
    {"strip", filter_strip}, {"lstrip", filter_strip_left}, {"capitalise", phrase_capitalise},
    {"words", filter_words}, {"before", filter_before},     {"after", filter_after},
};

static enum status add_lines(const struct reader *reader, const char *path)
{
    char item[96];
    int64_t count = 0;
    enum status status = record_count(reader->record, path, &count, reader->error);
    for (int64_t i = 0; i < count && status == STATUS_OK; i++) {
        (void)snprintf(item, sizeof item, "%s.%lld", path, (long long)i);
        if (i > 0) status = phrase_add(&reader->out->text, "\n", 1, reader->error);
        if (status == STATUS_OK) status = record_text(reader->record, item, &reader->out->text, reader->error);
    }
    return status;
}

/* The field between the braces: "path" or "path|filter". */
static enum status add_field(const struct reader *reader, const char *field, size_t size)
{
    struct phrase *text = &reader->out->text;
    const size_t from = text->size;
    char path[64], *filter;
    assert(size < sizeof path);
    memcpy(path, field, size);
    path[size] = '\0';
    if ((filter = strchr(path, '|')) != NULL) *filter++ = '\0';
    if (filter != NULL && strcmp(filter, "lines") == 0) return add_lines(reader, path);
    enum status status = record_text(reader->record, path, text, reader->error);
    for (size_t i = 0; filter != NULL && i < sizeof filters / sizeof filters[0] && status == STATUS_OK; i++)
        if (strcmp(filters[i].name, filter) == 0) status = filters[i].apply(text, from, reader->error);
    return status;
}

static enum status add_template(const struct reader *reader, const char *template, struct prompt_span *span)
{
    struct phrase *text = &reader->out->text;
    enum status status = STATUS_OK;
    span->start = text->size;
    for (const char *at = template; *at != '\0' && status == STATUS_OK;) {
        const size_t plain = strcspn(at, "{");
        status = phrase_add(text, at, plain, reader->error);
        at += plain;
        if (*at == '\0' || status != STATUS_OK) break;
        const size_t field = strcspn(++at, "}");
        status = add_field(reader, at, field);
        at += field + 1;
    }
    if (reader->task->clean) phrase_clean_wikihow(text, span->start);
    span->end = text->size;
    return status;
}

/* ---- choices ---- */

static enum status read_array(const struct reader *reader)
{
    struct prompt *out = reader->out;
    char field[96];
    int64_t count = 0;
    enum status status = record_count(reader->record, reader->task->choices[0], &count, reader->error);
    if (status == STATUS_OK && count > TASK_CHOICES) return invalid(reader, "has more choices than any task");
    for (int64_t i = 0; i < count && status == STATUS_OK; i++) {
        (void)snprintf(field, sizeof field, "{%s.%lld}", reader->task->choices[0], (long long)i);
        status = add_template(reader, field, &out->continuation[out->continuations++]);
    }
    return status;
}

/* Length of the option that begins at `at` ("b ) 27.675 , " or, the last, "e ) 4"), 0 when there is none: the match of
 * the pattern "[abcd] \) .*?, |e \) .*?$". */
static size_t option_length(const char *at, size_t left)
{
    if (left < 4 || memchr("abcde", at[0], 5) == NULL || memcmp(at + 1, " ) ", 3) != 0) return 0;
    for (size_t i = 4; i <= left; i++) {
        const bool end = i == left || (at[i] == '\n' && i + 1 == left);
        if (at[0] == 'e' ? end : i + 1 < left && at[i] == ',' && at[i + 1] == ' ') return at[0] == 'e' ? i : i + 2;
        if (i == left || at[i] == '\n') return 0;
    }
    return 0;
}

static enum status read_mathqa(const struct reader *reader)
{
    struct prompt *out = reader->out;
    struct phrase options = {0};
    enum status status = record_text(reader->record, reader->task->choices[0], &options, reader->error);
    for (size_t at = 0; at < options.size && status == STATUS_OK;) {
        size_t length = option_length(options.bytes + at, options.size - at);
        if (length == 0) {
            at++;
            continue;
        }
        if (out->continuations == TASK_CHOICES) {
            status = invalid(reader, "has more choices than any task");
            break;
        }
        struct prompt_span *span = &out->continuation[out->continuations++];
        span->start = out->text.size;
        status = phrase_add(&out->text, options.bytes + at + 4, length - 4, reader->error);
        while (out->text.size > span->start && strchr(" ,", out->text.bytes[out->text.size - 1]) != NULL)
            out->text.size--;
        span->end = out->text.size;
        at += length;
    }
    phrase_reset(&options);
    return status;
}

static enum status read_templates(const struct reader *reader)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof reader->task->choices / sizeof reader->task->choices[0] && status == STATUS_OK; i++)
        if (reader->task->choices[i] != NULL)
            status = add_template(reader, reader->task->choices[i],
                                  &reader->out->continuation[reader->out->continuations++]);
    return status;
}

static enum status read_choices(const struct reader *reader)
{
    switch (reader->task->source) {
    case TASK_CHOICES_ARRAY:
        return read_array(reader);
    case TASK_CHOICES_MATHQA:
        return read_mathqa(reader);
    case TASK_CHOICES_TEMPLATES:
        break;
    }
    return read_templates(reader);
}

/* ---- the right choice ---- */

/* Sets *out to the index of `key` among `count` texts, or -1. */
static enum status find_label(const struct reader *reader, const struct phrase *key, int *out)
{
    struct phrase label = {0};
    char item[96];
    int64_t count = 0;
    enum status status = record_count(reader->record, reader->task->gold_labels, &count, reader->error);
    for (int64_t i = 0; i < count && status == STATUS_OK && *out < 0; i++) {
        label.size = 0;
        (void)snprintf(item, sizeof item, "%s.%lld", reader->task->gold_labels, (long long)i);
        status = record_text(reader->record, item, &label, reader->error);
        if (label.size == key->size && memcmp(label.bytes, key->bytes, key->size) == 0) *out = (int)i;
    }
    phrase_reset(&label);
    return status;
}

static enum status read_key(const struct reader *reader, const struct phrase *key, int *out)
{
    const struct prompt *prompt = reader->out;
    if (key->size == 0) return STATUS_OK;
    if (reader->task->gold == TASK_GOLD_LABEL) return find_label(reader, key, out);
    if (reader->task->gold == TASK_GOLD_LETTER && key->size == 1) {
        const char *found = strchr(reader->task->gold_labels, key->bytes[0]);
        if (found != NULL) *out = (int)(found - reader->task->gold_labels);
    }
    for (int i = 0; reader->task->gold == TASK_GOLD_CHOICE && i < prompt->continuations; i++) {
        const struct prompt_span span = prompt->continuation[i];
        if (span.end - span.start == key->size && memcmp(prompt->text.bytes + span.start, key->bytes, key->size) == 0)
            *out = i;
    }
    return STATUS_OK;
}

static enum status read_gold(const struct reader *reader)
{
    const struct task *task = reader->task;
    struct phrase key = {0};
    int64_t number = 0;
    int gold = -1;
    enum status status = STATUS_OK;
    char what[160];
    if (task->gold == TASK_GOLD_ALWAYS) {
        gold = task->gold_base;
    } else if (task->gold == TASK_GOLD_INTEGER) {
        if ((status = record_integer(reader->record, task->gold_path, &number, reader->error)) != STATUS_OK)
            return status;
        number -= task->gold_base;
        gold = number >= 0 && number < TASK_CHOICES ? (int)number : -1;
    } else {
        status = record_text(reader->record, task->gold_path, &key, reader->error);
        if (status == STATUS_OK) phrase_strip_left(&key, 0);
        if (status == STATUS_OK) status = read_key(reader, &key, &gold);
        phrase_reset(&key);
    }
    if (status != STATUS_OK) return status;
    if (gold < 0 || gold >= reader->out->choices) {
        (void)snprintf(what, sizeof what, "the answer \"%s\" is none of the %d choices", task->gold_path,
                       reader->out->choices);
        return invalid(reader, what);
    }
    reader->out->gold = gold;
    return STATUS_OK;
}

enum status prompt_read(const struct task *task, const struct record *record, struct prompt *out, struct error *error)
{
    const struct reader reader = {task, record, out, error};
    enum status status = STATUS_OK;
    *out = (struct prompt){0};
    if (task->description != NULL) status = add_template(&reader, task->description, &out->description);
    for (int i = 0; i < 2 && status == STATUS_OK; i++)
        if (task->contexts[i] != NULL)
            status = add_template(&reader, task->contexts[i], &out->context[out->contexts++]);
    if (status == STATUS_OK) status = read_choices(&reader);
    if (status != STATUS_OK) return status;
    out->choices = out->contexts > 1 ? out->contexts : out->continuations;
    if (out->choices < 2) return invalid(&reader, "has fewer than two choices");
    for (int i = 0; i < out->choices; i++) {
        const struct prompt_span span = out->contexts > 1 ? out->context[i] : out->continuation[i];
        out->characters[i] = phrase_characters(out->text.bytes + span.start, span.end - span.start);
    }
    return read_gold(&reader);
}

void prompt_reset(struct prompt *prompt)
{
    phrase_reset(&prompt->text);
    *prompt = (struct prompt){0};
}

enum status prompt_solved(const struct task *task, const struct prompt *prompt, struct phrase *out, struct error *error)
{
    const struct prompt_span context = prompt_context(prompt, prompt->gold),
                             answer = prompt_continuation(prompt, prompt->gold);
    enum status status = phrase_add(out, prompt->text.bytes + context.start, context.end - context.start, error);
    if (status == STATUS_OK) status = phrase_add(out, task->delimiter, strlen(task->delimiter), error);
    return status == STATUS_OK ? phrase_add(out, prompt->text.bytes + answer.start, answer.end - answer.start, error)
                               : status;
}
