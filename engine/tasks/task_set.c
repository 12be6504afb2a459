#include "tasks/task_set.h"

#include "base/memory.h"
#include "files/file.h"
#include "tasks/sampler.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The records of a file, one per line. */
struct lines {
    const char *name; /* of the file; lent by path */
    char *bytes;
    int64_t count;
    struct json_reader_text *json;
    int64_t *numbers, *subjects;
};

struct loader {
    const struct task_set_source *source;
    struct task_set *set;
    struct lines tests, pool;
    struct error *error;
};

static void lines_reset(struct lines *lines)
{
    memory_free(lines->bytes);
    memory_free(lines->json);
    memory_free(lines->numbers);
    memory_free(lines->subjects);
    *lines = (struct lines){0};
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static enum status lines_allocate(struct lines *lines, int64_t most, struct error *error)
{
    enum status status;
    if ((status = memory_new(most, sizeof *lines->json, "records", &lines->json, error)) != STATUS_OK) return status;
    if ((status = memory_new(most, sizeof *lines->numbers, "records", &lines->numbers, error)) != STATUS_OK)
        return status;
    return memory_new(most, sizeof *lines->subjects, "records", &lines->subjects, error);
}

static enum status lines_read(struct lines *lines, const char *path, struct error *error)
{
    const char *slash = strrchr(path, '/');
    size_t size = 0;
    int64_t most = 1, number = 0;
    lines->name = slash == NULL ? path : slash + 1;
    enum status status = file_read_all(AT_FDCWD, path, TASK_SET_FILE_LIMIT, &lines->bytes, &size, error);
    if (status != STATUS_OK) return status;
    if (size >= 4 && memcmp(lines->bytes, "PAR1", 4) == 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s is a Parquet file; deltaq reads task records as JSON lines: convert it"
                         " with tests/tools/freeze_tasks.py",
                         lines->name);
    for (size_t i = 0; i < size; i++) most += lines->bytes[i] == '\n';
    if ((status = lines_allocate(lines, most, error)) != STATUS_OK) return status;
    for (const char *at = lines->bytes, *end = at + size; at < end; at++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at)), *last;
        if (stop == NULL) stop = end;
        for (last = stop; last > at && is_space(last[-1]); last--) continue;
        while (at < last && is_space(*at)) at++;
        number++;
        if (at < last) {
            lines->json[lines->count] = (struct json_reader_text){at, (size_t)(last - at)};
            lines->numbers[lines->count++] = number;
        }
        at = stop;
    }
    return lines->count > 0 ? STATUS_OK : error_set(error, STATUS_INVALID, "%s holds no records", lines->name);
}

static struct record record_at(const struct lines *lines, int64_t i)
{
    return (struct record){lines->name, lines->numbers[i], lines->json[i]};
}

/* ---- subjects ---- */

static int64_t subject_find(const struct task_set *set, const char *name)
{
    for (int64_t i = 0; i < set->subject_count; i++)
        if (strcmp(set->subjects[i].name, name) == 0) return i;
    return -1;
}

static enum status subject_add(struct task_set *set, const char *name, struct error *error)
{
    struct task_set_subject *grown = NULL;
    const enum status status = memory_new(set->subject_count + 1, sizeof *grown, "subjects", &grown, error);
    if (status != STATUS_OK) return status;
    if (set->subject_count > 0) memcpy(grown, set->subjects, (size_t)set->subject_count * sizeof *grown);
    (void)snprintf(grown[set->subject_count].name, sizeof grown->name, "%s", name);
    memory_free(set->subjects);
    set->subjects = grown;
    set->subject_count++;
    return STATUS_OK;
}

/* Reads the subject of every record; with `make` new ones are added, otherwise they get no number (-1). */
static enum status subjects_read(struct loader *loader, struct lines *lines, bool make)
{
    struct task_set *set = loader->set;
    struct phrase name = {0};
    enum status status = STATUS_OK;
    char text[64];
    for (int64_t i = 0; i < lines->count && status == STATUS_OK; i++) {
        const struct record record = record_at(lines, i);
        name.size = 0;
        if (set->task->subject != NULL) status = record_text(&record, set->task->subject, &name, loader->error);
        if (status == STATUS_OK && name.size >= sizeof text)
            status = error_set(loader->error, STATUS_INVALID, "%s: line %lld: the subject's name is too long",
                               record.file, (long long)record.line);
        if (status != STATUS_OK) break;
        (void)snprintf(text, sizeof text, "%.*s", (int)name.size, name.size > 0 ? name.bytes : "");
        lines->subjects[i] = subject_find(set, text);
        if (lines->subjects[i] >= 0 || !make) continue;
        lines->subjects[i] = set->subject_count;
        status = subject_add(set, text, loader->error);
    }
    phrase_reset(&name);
    return status;
}

/* ---- records and examples ---- */

static enum status read_pool(struct loader *loader)
{
    struct task_set *set = loader->set;
    const struct lines *lines = &loader->pool;
    enum status status = memory_new(lines->count, sizeof *set->pool, "examples", &set->pool, loader->error);
    for (int64_t i = 0; i < lines->count && status == STATUS_OK; i++) {
        const struct record record = record_at(lines, i);
        set->pool_count++;
        status = prompt_read(set->task, &record, &set->pool[i], loader->error);
    }
    return status;
}

/* Draws examples from the pool for one record, without those equal to it. */
static enum status draw(struct loader *loader, struct sampler *sampler, int64_t line, struct task_set_item *item)
{
    const struct task_set *set = loader->set;
    const struct lines *pool = &loader->pool;
    const int wanted = set->shots, drawn = wanted + set->task->spare;
    uint32_t picks[SAMPLER_DRAWS_MAX];
    int kept = 0;
    sampler_draw(sampler, (uint32_t)set->pool_count, drawn, picks);
    for (int i = 0; i < drawn && kept < wanted; i++) {
        bool same = false;
        enum status status = STATUS_OK;
        if (set->task->spare > 0)
            status = record_equal(loader->tests.json[line], pool->json[picks[i]], &same, loader->error);
        if (status != STATUS_OK) return status;
        if (!same) item->examples[kept++] = picks[i];
    }
    if (kept == wanted) return STATUS_OK;
    return error_set(loader->error, STATUS_INVALID,
                     "%s: line %lld is in the examples more than once: %d examples are left, %d are needed",
                     loader->tests.name, (long long)loader->tests.numbers[line], kept, wanted);
}

static enum status take_first(struct loader *loader, struct task_set_item *item)
{
    const struct task_set *set = loader->set;
    int kept = 0;
    for (int64_t i = 0; i < set->pool_count && kept < set->shots; i++)
        if (loader->pool.subjects[i] == item->subject) item->examples[kept++] = (uint32_t)i;
    if (kept == set->shots) return STATUS_OK;
    return error_set(loader->error, STATUS_INVALID, "%s has %d examples of the subject \"%s\"; %d are needed",
                     loader->pool.name, kept, set->subjects[item->subject].name, set->shots);
}

static enum status choose(struct loader *loader, struct sampler *sampler, int64_t line, struct task_set_item *item)
{
    if (loader->set->shots == 0) return STATUS_OK;
    return loader->set->task->sampler == TASK_SAMPLER_FIRST ? take_first(loader, item)
                                                            : draw(loader, sampler, line, item);
}

static enum status read_items(struct loader *loader)
{
    struct task_set *set = loader->set;
    const struct lines *lines = &loader->tests;
    struct sampler *sampler = NULL;
    enum status status = memory_new(lines->count, sizeof *set->items, "items", &set->items, loader->error);
    if (status != STATUS_OK) return status;
    if ((status = memory_new(1, sizeof *sampler, "sampler", &sampler, loader->error)) != STATUS_OK) return status;
    for (int64_t subject = 0; subject < set->subject_count && status == STATUS_OK; subject++) {
        struct task_set_subject *of = &set->subjects[subject];
        sampler_seed(sampler, TASK_SEED);
        for (int64_t i = 0; i < lines->count && status == STATUS_OK; i++) {
            if (lines->subjects[i] != subject || (loader->source->limit > 0 && of->items == loader->source->limit))
                continue;
            const struct record record = record_at(lines, i);
            struct task_set_item *item = &set->items[set->item_count++];
            item->subject = subject;
            item->doc = of->items++;
            status = prompt_read(set->task, &record, &item->prompt, loader->error);
            if (status == STATUS_OK) status = choose(loader, sampler, i, item);
        }
    }
    memory_free(sampler);
    return status;
}

static enum status check_pool(const struct loader *loader)
{
    const struct task_set *set = loader->set;
    const int needed = set->shots + set->task->spare;
    if (set->task->sampler == TASK_SAMPLER_FIRST || set->pool_count >= needed) return STATUS_OK;
    return error_set(loader->error, STATUS_INVALID, "%s holds %lld examples; %s with %d shots draws %d for each record",
                     loader->pool.name, (long long)set->pool_count, set->task->name, set->shots, needed);
}

enum status task_set_open(const struct task_set_source *source, struct task_set **out, struct error *error)
{
    struct task_set *set = NULL;
    struct loader loader = {.source = source, .error = error};
    enum status status = memory_new(1, sizeof *set, "task", &set, error);
    *out = NULL;
    if (status != STATUS_OK) return status;
    assert(source->shots + source->task->spare <= SAMPLER_DRAWS_MAX);
    set->task = source->task;
    set->shots = source->shots;
    loader.set = set;
    if ((status = lines_read(&loader.tests, source->path, error)) != STATUS_OK) goto done;
    if ((status = subjects_read(&loader, &loader.tests, true)) != STATUS_OK) goto done;
    if (source->shots > 0) {
        if (source->fewshot == NULL) {
            status = error_set(error, STATUS_INVALID, "%s with %d shots needs a file of examples", set->task->name,
                               set->shots);
            goto done;
        }
        if ((status = lines_read(&loader.pool, source->fewshot, error)) != STATUS_OK) goto done;
        if ((status = subjects_read(&loader, &loader.pool, false)) != STATUS_OK) goto done;
        if ((status = read_pool(&loader)) != STATUS_OK) goto done;
        if ((status = check_pool(&loader)) != STATUS_OK) goto done;
    }
    if ((status = read_items(&loader)) != STATUS_OK) goto done;
    *out = set;
    set = NULL;
done:
    lines_reset(&loader.tests);
    lines_reset(&loader.pool);
    task_set_close(set);
    return status;
}

void task_set_close(struct task_set *set)
{
    if (set == NULL) return;
    for (int64_t i = 0; i < set->item_count; i++) prompt_reset(&set->items[i].prompt);
    for (int64_t i = 0; i < set->pool_count; i++) prompt_reset(&set->pool[i]);
    memory_free(set->items);
    memory_free(set->pool);
    memory_free(set->subjects);
    memory_free(set);
}

static enum status add_span(const struct prompt *prompt, struct prompt_span span, struct phrase *out,
                            struct error *error)
{
    return phrase_add(out, prompt->text.bytes + span.start, span.end - span.start, error);
}

enum status task_set_context(const struct task_set *set, int64_t item, int choice, struct phrase *out,
                             struct error *error)
{
    const struct task_set_item *of = &set->items[item];
    enum status status = add_span(&of->prompt, of->prompt.description, out, error);
    for (int i = 0; i < set->shots && status == STATUS_OK; i++) {
        status = prompt_solved(set->task, &set->pool[of->examples[i]], out, error);
        if (status == STATUS_OK) status = phrase_add(out, "\n\n", 2, error);
    }
    return status == STATUS_OK ? add_span(&of->prompt, prompt_context(&of->prompt, choice), out, error) : status;
}

enum status task_set_continuation(const struct task_set *set, int64_t item, int choice, struct phrase *out,
                                  struct error *error)
{
    const struct prompt *prompt = &set->items[item].prompt;
    const enum status status = phrase_add(out, set->task->delimiter, strlen(set->task->delimiter), error);
    return status == STATUS_OK ? add_span(prompt, prompt_continuation(prompt, choice), out, error) : status;
}

void task_set_name(const struct task_set *set, int64_t subject, char *name, size_t size)
{
    const char *part = set->subjects[subject].name;
    (void)snprintf(name, size, "%s%s%s", set->task->name, part[0] != '\0' ? "_" : "", part);
}
