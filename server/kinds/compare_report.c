#include "kinds/compare_report.h"

#include "base/memory.h"
#include "kinds/losses.h"
#include "kinds/metric.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* How much text of token_differences.csv is collected before it is written. */
enum { CHUNK_BYTES = 1 << 20 };

/* ---- Its table ---- */

#define SIDE(field) offsetof(struct compare_report_side, field)

static const struct result_field side_fields[] = {
    {.name = "run",
     .type = RESULT_TEXT,
     .offset = SIDE(run),
     .absence = RESULT_NULL,
     .help = "Id of the run that measured it; null for a checkpoint that was measured here"},
    {.name = "checkpoint", .type = RESULT_TEXT, .offset = SIDE(checkpoint), .help = "Id of the checkpoint"},
    {.name = "recipe_id",
     .type = RESULT_TEXT,
     .offset = SIDE(recipe),
     .absence = RESULT_NULL,
     .help = "Hash of the method that quantized it; null without one"},
    {.name = "calibration_id",
     .type = RESULT_TEXT,
     .offset = SIDE(calibration),
     .absence = RESULT_NULL,
     .help = "Hash of its calibration; null where the method reads none"},
    {0},
};
static const struct result_shape side_shape = {
    .name = "ComparedSide", .help = "One of the two that are compared", .fields = side_fields};

#define REPORT(field) offsetof(struct compare_report, field)

static const struct result_field report_fields[] = {
    {.name = "a", .type = RESULT_OBJECT, .offset = REPORT(a), .shape = &side_shape, .help = "The side to compare with"},
    {.name = "b", .type = RESULT_OBJECT, .offset = REPORT(b), .shape = &side_shape, .help = "The compared side"},
    {.type = RESULT_MERGED, .offset = REPORT(numbers), .shape = &compared_numbers_shape},
    {.name = "by_token",
     .type = RESULT_OBJECT,
     .offset = REPORT(tokens),
     .absence = RESULT_NULL,
     .has_when = true,
     .when = REPORT(has_tokens),
     .shape = &compared_tokens_shape},
    METRIC_NOTE_FIELD(REPORT(note)),
    {0},
};
const struct result_shape compare_report_shape = {.name = "CompareResult", .fields = report_fields};

/* ---- Filling it ---- */

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static const char *note_of(const struct compare_report *report)
{
    for (int i = 0; i < COMPARED_NUMBERS; i++)
        if (report->numbers.numbers[i].told && !isfinite(report->numbers.numbers[i].found.value))
            return "a loss is not finite: the outputs of a model overflow or are not numbers";
    if (!same_text(report->a.calibration, report->b.calibration))
        return "the two were calibrated on different samples: what that changes is in the differences, but not in "
               "their intervals";
    return NULL;
}

enum status compare_report_fill(const struct compared_losses *a, const struct compared_losses *b, uint64_t seed,
                                struct compare_report *report, struct error *error)
{
    enum status status = compared_measure(a, b, seed, &report->numbers, error);
    report->has_tokens = compared_has_tokens(a) && compared_has_tokens(b);
    if (status == STATUS_OK && report->has_tokens)
        status = compared_measure_tokens(a, b, &report->numbers, seed, &report->tokens, error);
    report->note = note_of(report);
    return status;
}

/* ---- What it leaves ---- */

static double of_sequence(const struct compared_losses *losses, struct compared_columns columns, int64_t s)
{
    const double over = losses->columns[columns.over][s];
    return columns.under < 0 ? over : over / losses->columns[columns.under][s];
}

static enum status publish_sequences(const struct compared_losses *a, const struct compared_losses *b,
                                     struct artifacts *artifacts, struct error *error)
{
    const struct compared_span span = compared_span(a->left);
    struct losses_column columns[COMPARED_NUMBERS];
    double *values[COMPARED_NUMBERS] = {NULL};
    size_t count = 0;
    struct buffer text = {0};
    enum status status = STATUS_OK;
    for (int i = span.first; i <= span.last && status == STATUS_OK; i++, count++) {
        const struct compared_columns of = compared_columns(i);
        status = memory_new(a->sequences, sizeof *values[count], "differences", &values[count], error);
        for (int64_t s = 0; s < a->sequences && status == STATUS_OK; s++)
            values[count][s] = of_sequence(b, of, s) - of_sequence(a, of, s);
        columns[count] = (struct losses_column){compared_names[i], values[count]};
    }
    if (status == STATUS_OK) status = losses_table_print(&text, a->predictions, a->sequences, columns, count, error);
    if (status == STATUS_OK) status = losses_publish_text(artifacts, "differences.csv", &text, error);
    buffer_reset(&text);
    for (size_t c = 0; c < count; c++) memory_free(values[c]);
    return status;
}

static void print_token(struct buffer *text, const struct compared_losses *a, const struct compared_losses *b,
                        int64_t token)
{
    for (size_t c = 0; c < a->left->count; c++)
        losses_table_number(text, (double)b->tokens[c][token] - (double)a->tokens[c][token]);
    buffer_puts(text, "\n");
}

static enum status flush(struct buffer *text, struct artifact_writer *writer, struct error *error)
{
    enum status status = buffer_status(text, "differences of tokens", error);
    if (status == STATUS_OK) status = artifact_write(writer, text->bytes, text->length, error);
    buffer_reset(text);
    return status;
}

static enum status print_tokens(const struct compared_losses *a, const struct compared_losses *b,
                                struct artifact_writer *writer, struct error *error)
{
    struct buffer text = {0};
    enum status status = STATUS_OK;
    int64_t token = 0;
    buffer_puts(&text, "sequence,position");
    for (size_t c = 0; c < a->left->count; c++) buffer_printf(&text, ",%s", a->left->columns[c]);
    buffer_puts(&text, "\n");
    for (int64_t s = 0; s < a->sequences && status == STATUS_OK; s++) {
        for (int64_t position = 1; position <= a->predictions[s]; position++) {
            buffer_printf(&text, "%" PRId64 ",%" PRId64, s, position);
            print_token(&text, a, b, token++);
        }
        if (text.length >= CHUNK_BYTES) status = flush(&text, writer, error);
    }
    if (status == STATUS_OK) status = flush(&text, writer, error);
    buffer_reset(&text);
    return status;
}

static enum status publish_tokens(const struct compared_losses *a, const struct compared_losses *b,
                                  struct artifacts *artifacts, struct error *error)
{
    struct artifact_writer *writer = NULL;
    enum status status = artifact_open(artifacts, "token_differences.csv", LOSSES_MEDIA_TYPE, &writer, error);
    if (status == STATUS_OK) status = print_tokens(a, b, writer, error);
    if (status == STATUS_OK) return artifact_publish(writer, error);
    artifact_abandon(writer);
    return status;
}

enum status compare_report_publish(const struct compared_losses *a, const struct compared_losses *b,
                                   struct artifacts *artifacts, struct error *error)
{
    const enum status status = publish_sequences(a, b, artifacts, error);
    if (status != STATUS_OK || !compared_has_tokens(a) || !compared_has_tokens(b)) return status;
    return publish_tokens(a, b, artifacts, error);
}
