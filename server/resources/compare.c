#include "base/memory.h"
#include "eval/difference.h"
#include "kinds/losses.h"
#include "resources/application.h"
#include "resources/handlers.h"
#include "schema/result_render.h"
#include "store/runs.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Two runs and not a run of their own: what is read are two small files, and nothing is computed that would wait for a
 * worker. 2000 samples of at most DIFFERENCE_BOOTSTRAP_MOST sequences take a second or two. */

/* ---- What is told ---- */

/* By enum ratio_method, after RATIO_NONE. */
static const char *const interval_methods[] = {"student", "bootstrap", NULL};

struct compare_number {
    struct difference found;
    const char *method; /* NULL: no interval */
    double worse_share;
    bool told;
};

#define NUMBER(field) offsetof(struct compare_number, field)

static const struct result_field number_fields[] = {
    {.name = "a", .type = RESULT_NUMBER, .offset = NUMBER(found.a), .help = "Of the run a"},
    {.name = "b", .type = RESULT_NUMBER, .offset = NUMBER(found.b), .help = "Of the run b"},
    {.name = "difference", .type = RESULT_NUMBER, .offset = NUMBER(found.value), .help = "b − a, in the unit of both"},
    {.name = "interval",
     .type = RESULT_INTERVAL,
     .offset = NUMBER(found.interval.low),
     .high = NUMBER(found.interval.high),
     .help = "95 % interval of the difference, of pairs: the sequences are what is drawn at random, not the "
             "calibration sample of a method. Null for a single sequence"},
    {.name = "interval_method",
     .type = RESULT_TEXT,
     .offset = NUMBER(method),
     .choices = interval_methods,
     .absence = RESULT_NULL,
     .help =
         "`student`, below 64 sequences n and above 16384: difference ± t √(n / (n − 1) Σ e²), t Student's of n − 1 "
         "degrees of freedom, e the linearized difference of a sequence: w (q − r f) / Σ w f of b less that of a, w "
         "predictions, r = Σ w q / Σ w f (f = 1 for losses and kl). `bootstrap`, between them: percentiles of 2000 "
         "samples of sequences with replacement, both runs together. Null without an interval"},
    {.name = "worse",
     .type = RESULT_INTEGER,
     .offset = NUMBER(found.greater),
     .help = "Sequences whose number is greater in b"},
    {.name = "better",
     .type = RESULT_INTEGER,
     .offset = NUMBER(found.smaller),
     .help = "Sequences whose number is smaller in b"},
    {.name = "worse_share",
     .type = RESULT_NUMBER,
     .offset = NUMBER(worse_share),
     .finite = true,
     .help = "`worse` over all sequences"},
    {.name = "sign_p",
     .type = RESULT_NUMBER,
     .offset = NUMBER(found.sign_p),
     .finite = true,
     .help =
         "Exact two-sided sign test of `worse` against `better`: how likely a split at least as uneven is when either "
         "is as likely. It counts sequences and not how much they differ; the interval is about the mean"},
    {0},
};
static const struct result_shape number_shape = {
    .name = "ComparedNumber", .help = "One number of two runs", .fields = number_fields};

enum { LOSS, LOSS_FP, LOSS_Q, DELTA, KL, NUMBERS };

struct comparison {
    const char *a, *b, *kind, *protocol;
    int64_t sequences, tokens;
    struct compare_number numbers[NUMBERS];
};

#define COMPARISON(field) offsetof(struct comparison, field)
#define COMPARED(label, index, text)                                                                              \
    {                                                                                                             \
        .name = (label), .type = RESULT_OBJECT, .offset = COMPARISON(numbers[index]), .absence = RESULT_LEFT_OUT, \
        .has_when = true, .when = COMPARISON(numbers[index].told), .shape = &number_shape, .help = (text)         \
    }

static const struct result_field comparison_fields[] = {
    {.name = "a", .type = RESULT_TEXT, .offset = COMPARISON(a), .help = "Id of the run that is compared with"},
    {.name = "b", .type = RESULT_TEXT, .offset = COMPARISON(b), .help = "Id of the run that is compared"},
    {.name = "kind", .type = RESULT_TEXT, .offset = COMPARISON(kind), .help = "Of both runs"},
    {.name = "protocol_id",
     .type = RESULT_TEXT,
     .offset = COMPARISON(protocol),
     .help = "Of both: hash of the evaluation tokens, their sequences and the arithmetic"},
    {.name = "sequences", .type = RESULT_INTEGER, .offset = COMPARISON(sequences), .help = "Pairs"},
    {.name = "tokens", .type = RESULT_INTEGER, .offset = COMPARISON(tokens), .help = "Of all sequences"},
    COMPARED("loss", LOSS, "Of `evaluate`: the mean next-token cross-entropy, nats"),
    COMPARED("loss_fp", LOSS_FP, "Of `quantize`: the loss in full precision, nats"),
    COMPARED("loss_q", LOSS_Q, "Of `quantize`: the loss of the quantized model, nats"),
    COMPARED("delta", DELTA, "Of `quantize`: ΔQL, loss_q / loss_fp − 1"),
    COMPARED("kl", KL, "Of `quantize`: the KL divergence, nats"),
    {0},
};
const struct result_shape compare_result = {.name = "Comparison", .fields = comparison_fields};

/* ---- The two runs ---- */

struct side {
    const char *field, *id; /* "a", and what stands there; lent */
    json_t *run;
    const char *kind, *protocol; /* lent by the run */
    struct losses_table table;
};

static void side_reset(struct side *side)
{
    losses_table_reset(&side->table);
    json_decref(side->run);
}

/* What each kind leaves. */
static const struct {
    const char *kind;
    const char *columns[LOSSES_TABLE_COLUMNS];
    size_t count;
} leaves[] = {{"evaluate", {"loss"}, 1}, {"quantize", {"loss_fp", "loss_q", "kl"}, 3}};

static size_t leaves_of(const char *kind)
{
    size_t i = 0;
    while (i < sizeof leaves / sizeof leaves[0] && strcmp(leaves[i].kind, kind) != 0) i++;
    return i;
}

static const char *text_of(const json_t *object, const char *field)
{
    const char *text = json_string_value(json_object_get(object, field));
    return text != NULL ? text : "";
}

static enum status side_open(struct http_context *context, const struct request *request, struct side *side,
                             struct error *error)
{
    side->id = request_query(request, side->field);
    if (side->id == NULL) return request_query_fault(error, side->field, "is missing: ?a=RUN&b=RUN");
    const enum status status = run_get(application_connection(context), side->id, &side->run, error);
    if (status != STATUS_OK) return status;
    const char *state = text_of(side->run, "state");
    side->kind = text_of(side->run, "kind");
    side->protocol = text_of(json_object_get(side->run, "result"), "protocol_id");
    if (leaves_of(side->kind) == sizeof leaves / sizeof leaves[0])
        return request_query_fault(error, side->field,
                                   "is a run of the kind %s; only evaluate and quantize leave losses of sequences",
                                   side->kind);
    if (strcmp(state, "succeeded") != 0)
        return error_set(error, STATUS_CONFLICT, "the run %s is %s; only runs that succeeded can be compared",
                         side->field, state);
    return STATUS_OK;
}

static enum status sides_check(const struct side *a, const struct side *b, struct error *error)
{
    if (strcmp(a->kind, b->kind) != 0)
        return request_query_fault(error, b->field, "is a run of the kind %s and a of %s; compare runs of one kind",
                                   b->kind, a->kind);
    if (strcmp(a->protocol, b->protocol) != 0)
        return request_query_fault(error, b->field,
                                   "was measured on other sequences or in other precision than a: protocol_id %s, not "
                                   "%s; give both the same dataset, sequence_length, packing, max_sequences and "
                                   "precision",
                                   b->protocol, a->protocol);
    return STATUS_OK;
}

static enum status side_read(struct http_context *context, struct side *side, struct error *error)
{
    struct run_artifact artifact;
    char path[PATH_MAX];
    const size_t left = leaves_of(side->kind);
    const enum status status =
        run_artifact_find(application_connection(context), side->id, LOSSES_ARTIFACT, &artifact, error);
    if (status == STATUS_NOT_FOUND)
        return request_query_fault(error, side->field,
                                   "has no " LOSSES_ARTIFACT ": an earlier version measured it; post it again with "
                                   "\"force\": true");
    if (status != STATUS_OK) return status;
    (void)snprintf(path, sizeof path, "%s/artifacts/%s", application_of(context)->data_directory, artifact.sha256);
    return losses_table_read(path, leaves[left].columns, leaves[left].count, &side->table, error);
}

/* ---- The comparison ---- */

static enum status sides_compare(const struct side *a, const struct side *b, struct comparison *out,
                                 struct error *error)
{
    double *const *left = a->table.columns, *const *right = b->table.columns;
    const bool quantized = strcmp(a->kind, "quantize") == 0;
    const struct difference_pair loss[] = {{{left[0], NULL}, {right[0], NULL}}};
    const struct difference_pair quantization[] = {{{left[0], NULL}, {right[0], NULL}},
                                                   {{left[1], NULL}, {right[1], NULL}},
                                                   {{left[1], left[0]}, {right[1], right[0]}},
                                                   {{left[2], NULL}, {right[2], NULL}}};
    const int first = quantized ? LOSS_FP : LOSS, count = quantized ? NUMBERS - LOSS_FP : 1;
    const int64_t sequences = a->table.sequences;
    struct difference found[DIFFERENCE_PAIRS_MOST];
    const enum status status =
        difference_measure(quantized ? quantization : loss, count, a->table.predictions, sequences, 0, found, error);
    for (int i = 0; i < count && status == STATUS_OK; i++) {
        struct compare_number *number = &out->numbers[first + i];
        const enum ratio_method method = found[i].interval.method;
        *number = (struct compare_number){.found = found[i],
                                          .method = method == RATIO_NONE ? NULL : interval_methods[method - 1],
                                          .worse_share = (double)found[i].greater / (double)sequences,
                                          .told = true};
    }
    out->numbers[DELTA].found.a -= 1;
    out->numbers[DELTA].found.b -= 1;
    return status;
}

/* What the protocol says already, of files that nobody changed. */
static enum status sides_match(const struct side *a, const struct side *b, struct error *error)
{
    const size_t bytes = (size_t)a->table.sequences * sizeof *a->table.predictions;
    if (a->table.sequences == b->table.sequences && memcmp(a->table.predictions, b->table.predictions, bytes) == 0)
        return STATUS_OK;
    return error_set(error, STATUS_CORRUPT,
                     LOSSES_ARTIFACT " of the two runs are of other sequences; measure them again");
}

enum status compare_get(struct http_context *context, const struct request *request, struct response *response,
                        struct error *error)
{
    struct side a = {.field = "a"}, b = {.field = "b"};
    struct comparison comparison = {0};
    json_t *document = NULL;
    enum status status;
    if ((status = side_open(context, request, &a, error)) != STATUS_OK) goto done;
    if ((status = side_open(context, request, &b, error)) != STATUS_OK) goto done;
    if ((status = sides_check(&a, &b, error)) != STATUS_OK) goto done;
    if ((status = side_read(context, &a, error)) != STATUS_OK) goto done;
    if ((status = side_read(context, &b, error)) != STATUS_OK) goto done;
    if ((status = sides_match(&a, &b, error)) != STATUS_OK) goto done;
    if ((status = sides_compare(&a, &b, &comparison, error)) != STATUS_OK) goto done;
    comparison.a = text_of(a.run, "id");
    comparison.b = text_of(b.run, "id");
    comparison.kind = a.kind;
    comparison.protocol = a.protocol;
    comparison.sequences = comparison.tokens = a.table.sequences;
    for (int64_t s = 0; s < a.table.sequences; s++) comparison.tokens += a.table.predictions[s];
    status = result_render(&compare_result, &comparison, &document, error);
done:
    side_reset(&a);
    side_reset(&b);
    return status == STATUS_OK ? response_json(response, 200, document, error) : status;
}
