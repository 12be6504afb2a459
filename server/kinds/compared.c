#include "kinds/compared.h"

#include <string.h>

/* By enum ratio_method, after RATIO_NONE. */
static const char *const interval_methods[] = {"student", "bootstrap", NULL};

static const char *method_name(enum ratio_method method)
{
    return method == RATIO_NONE ? NULL : interval_methods[method - 1];
}

/* ---- By sequence ---- */

const char *const compared_names[COMPARED_NUMBERS] = {"loss", "loss_fp", "loss_q", "delta", "kl"};

#define NUMBER(field) offsetof(struct compared_number, field)

static const struct result_field number_fields[] = {
    {.name = "a", .type = RESULT_NUMBER, .offset = NUMBER(found.a), .help = "Of the first, a"},
    {.name = "b", .type = RESULT_NUMBER, .offset = NUMBER(found.b), .help = "Of the second, b"},
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
         "`student`, where (Σw)²/Σw², the number n of sequences if all are of one length, is below 64, and where "
         "n is above 16384: difference ± t √((n − 1) / n Σ (e / (1 − w / Σw))²), t "
         "Student's of (Σw)²/Σw² − 1 degrees of freedom, e the linearized difference of a sequence: "
         "w (q − r f) / Σ w f of b less that of a, w predictions, r = Σ w q / Σ w f (f = 1 for losses and kl). "
         "`bootstrap`, between them: percentiles of 2000 samples of sequences with replacement, both runs together. "
         "Null without an interval"},
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
    .name = "ComparedNumber", .help = "One number of two measurements", .fields = number_fields};

#define NUMBERS(field) offsetof(struct compared_numbers, field)
#define COMPARED(label, index, text)                                                                           \
    {                                                                                                          \
        .name = (label), .type = RESULT_OBJECT, .offset = NUMBERS(numbers[index]), .absence = RESULT_LEFT_OUT, \
        .has_when = true, .when = NUMBERS(numbers[index].told), .shape = &number_shape, .help = (text)         \
    }

static const struct result_field numbers_fields[] = {
    {.name = "kind", .type = RESULT_TEXT, .offset = NUMBERS(kind), .help = "The kind of run that both are of"},
    {.name = "protocol_id",
     .type = RESULT_TEXT,
     .offset = NUMBERS(protocol),
     .help = "Of both: hash of the evaluation tokens, their sequences and the arithmetic"},
    {.name = "sequences", .type = RESULT_INTEGER, .offset = NUMBERS(sequences), .help = "Pairs"},
    {.name = "tokens", .type = RESULT_INTEGER, .offset = NUMBERS(tokens), .help = "Of all sequences"},
    COMPARED("loss", COMPARED_LOSS, "Of `evaluate`: the mean next-token cross-entropy, nats"),
    COMPARED("loss_fp", COMPARED_LOSS_FP, "Of `quantize`: the loss in full precision, nats"),
    COMPARED("loss_q", COMPARED_LOSS_Q, "Of `quantize`: the loss of the quantized model, nats"),
    COMPARED("delta", COMPARED_DELTA, "Of `quantize`: ΔQL, loss_q / loss_fp − 1"),
    COMPARED("kl", COMPARED_KL, "Of `quantize`: the KL divergence, nats"),
    {0},
};
const struct result_shape compared_numbers_shape = {.fields = numbers_fields};

/* The columns of each number; they index losses_evaluate.columns and losses_quantize.columns. */
static const struct compared_columns columns_of[COMPARED_NUMBERS] = {{0, -1}, {0, -1}, {1, -1}, {1, 0}, {2, -1}};

struct compared_columns compared_columns(int number)
{
    return columns_of[number];
}

struct compared_span compared_span(const struct losses_kind *left)
{
    return left->count == 1 ? (struct compared_span){COMPARED_LOSS, COMPARED_LOSS}
                            : (struct compared_span){COMPARED_LOSS_FP, COMPARED_KL};
}

int64_t compared_predictions(const struct compared_losses *losses)
{
    int64_t all = 0;
    for (int64_t s = 0; s < losses->sequences; s++) all += losses->predictions[s];
    return all;
}

bool compared_has_tokens(const struct compared_losses *losses)
{
    for (size_t c = 0; c < losses->left->count; c++)
        if (losses->tokens[c] == NULL) return false;
    return true;
}

static struct difference_side side_of(const struct compared_losses *losses, struct compared_columns columns)
{
    return (struct difference_side){losses->columns[columns.over],
                                    columns.under < 0 ? NULL : losses->columns[columns.under]};
}

/* Checks the sequences' lengths. The protocol says the same already, unless somebody changed the files. */
static enum status match(const struct compared_losses *a, const struct compared_losses *b, struct error *error)
{
    const size_t bytes = (size_t)a->sequences * sizeof *a->predictions;
    if (a->sequences == b->sequences && memcmp(a->predictions, b->predictions, bytes) == 0) return STATUS_OK;
    return error_set(error, STATUS_CORRUPT,
                     LOSSES_ARTIFACT " of the two runs are of other sequences; measure them again");
}

enum status compared_measure(const struct compared_losses *a, const struct compared_losses *b, uint64_t seed,
                             struct compared_numbers *out, struct error *error)
{
    const struct compared_span span = compared_span(a->left);
    const int count = span.last - span.first + 1;
    struct difference_pair pairs[DIFFERENCE_PAIRS_MOST];
    struct difference found[DIFFERENCE_PAIRS_MOST];
    enum status status = match(a, b, error);
    if (status != STATUS_OK) return status;
    for (int i = 0; i < count; i++)
        pairs[i] =
            (struct difference_pair){side_of(a, columns_of[span.first + i]), side_of(b, columns_of[span.first + i])};
    if ((status = difference_measure(pairs, count, a->predictions, a->sequences, seed, found, error)) != STATUS_OK)
        return status;
    for (int i = 0; i < count; i++)
        out->numbers[span.first + i] =
            (struct compared_number){.found = found[i],
                                     .method = method_name(found[i].interval.method),
                                     .worse_share = (double)found[i].greater / (double)a->sequences,
                                     .told = true};
    out->numbers[COMPARED_DELTA].found.a -= 1;
    out->numbers[COMPARED_DELTA].found.b -= 1;
    out->sequences = a->sequences;
    out->tokens = a->sequences + compared_predictions(a);
    return STATUS_OK;
}

/* ---- By token ---- */

#define TOKEN(field) offsetof(struct compared_token_number, field)
#define COUNTED      .absence = RESULT_LEFT_OUT, .has_when = true, .when = TOKEN(counted)

static const struct result_field token_fields[] = {
    {.name = "interval",
     .type = RESULT_INTERVAL,
     .offset = TOKEN(found.tokens.interval.low),
     .high = TOKEN(found.tokens.interval.high),
     .help = "95 % interval of the difference as if each token were drawn by itself; too narrow by √design_effect "
             "where that is above 1, and then the interval by sequence is the one to cite"},
    {.name = "interval_method",
     .type = RESULT_TEXT,
     .offset = TOKEN(method),
     .choices = interval_methods,
     .absence = RESULT_NULL,
     .help = "As by sequence, with tokens in place of sequences"},
    {.name = "design_effect",
     .type = RESULT_NUMBER,
     .offset = TOKEN(found.design_effect),
     .absence = RESULT_NULL,
     .help = "Kish's: the squared standard error of the difference by sequences over that by tokens. Above 1 where "
             "tokens of a sequence vary together; null for a single sequence or equal tokens"},
    {.name = "worse",
     .type = RESULT_INTEGER,
     .offset = TOKEN(found.tokens.greater),
     .help = "Tokens whose number is greater in b; not told of delta, as a token's own ratio means little",
     COUNTED},
    {.name = "better",
     .type = RESULT_INTEGER,
     .offset = TOKEN(found.tokens.smaller),
     .help = "Tokens whose number is smaller in b",
     COUNTED},
    {.name = "worse_share",
     .type = RESULT_NUMBER,
     .offset = TOKEN(found.worse_share),
     .help = "`worse` over all tokens",
     .finite = true,
     COUNTED},
    {.name = "worse_share_interval",
     .type = RESULT_INTERVAL,
     .offset = TOKEN(found.worse_interval.low),
     .high = TOKEN(found.worse_interval.high),
     .help = "95 % interval of worse_share, of whole sequences drawn at random, within 0 to 1; null for a single one, "
             "and where every token is worse, or none is but some are better",
     COUNTED},
    {.name = "worse_share_method",
     .type = RESULT_TEXT,
     .offset = TOKEN(worse_method),
     .choices = interval_methods,
     .help = "How worse_share_interval was made, as the intervals by sequence; left out without one",
     .absence = RESULT_LEFT_OUT},
    {0},
};
static const struct result_shape token_shape = {
    .name = "ComparedTokens", .help = "One number of two measurements, by token", .fields = token_fields};

#define TOKENS(field) offsetof(struct compared_tokens, field)
#define BY_TOKEN(label, index)                                                                                \
    {                                                                                                         \
        .name = (label), .type = RESULT_OBJECT, .offset = TOKENS(numbers[index]), .absence = RESULT_LEFT_OUT, \
        .has_when = true, .when = TOKENS(numbers[index].told), .shape = &token_shape                          \
    }

static const struct result_field tokens_fields[] = {
    {.name = "predictions", .type = RESULT_INTEGER, .offset = TOKENS(predictions), .help = "Tokens that are predicted"},
    BY_TOKEN("loss", COMPARED_LOSS),
    BY_TOKEN("loss_fp", COMPARED_LOSS_FP),
    BY_TOKEN("loss_q", COMPARED_LOSS_Q),
    BY_TOKEN("delta", COMPARED_DELTA),
    BY_TOKEN("kl", COMPARED_KL),
    {0},
};
const struct result_shape compared_tokens_shape = {
    .help = "The same differences by token, from losses in single precision; null where a measurement kept none",
    .fields = tokens_fields};

static struct token_side token_side_of(const struct compared_losses *losses, struct compared_columns columns)
{
    return (struct token_side){losses->tokens[columns.over], columns.under < 0 ? NULL : losses->tokens[columns.under]};
}

enum status compared_measure_tokens(const struct compared_losses *a, const struct compared_losses *b,
                                    const struct compared_numbers *by_sequence, uint64_t seed,
                                    struct compared_tokens *out, struct error *error)
{
    const struct compared_span span = compared_span(a->left);
    *out = (struct compared_tokens){.predictions = compared_predictions(a)};
    for (int i = span.first; i <= span.last; i++) {
        const struct token_pair pair = {token_side_of(a, columns_of[i]), token_side_of(b, columns_of[i])};
        struct compared_token_number *number = &out->numbers[i];
        const enum status status = token_difference_measure(
            &pair, a->predictions, a->sequences, &by_sequence->numbers[i].found, seed, &number->found, error);
        if (status != STATUS_OK) return status;
        number->told = true;
        number->counted = columns_of[i].under < 0;
        number->method = method_name(number->found.tokens.interval.method);
        if (number->counted) number->worse_method = method_name(number->found.worse_interval.method);
    }
    return STATUS_OK;
}
