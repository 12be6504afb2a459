#include "eval/token_difference.h"

#include "base/memory.h"
#include "eval/bootstrap.h"

#include <math.h>

/* Over and under of both sides, and a weight of 1 a token. */
enum { DOUBLES = 4 };

static void widen(const float *from, int64_t count, double *to)
{
    for (int64_t i = 0; i < count; i++) to[i] = from == NULL ? 1 : (double)from[i];
}

/* shares[s]: how many tokens of the sequence are greater in b, over its predictions. */
static void worse_shares(const double *const *sides, const int64_t *predictions, int64_t sequences, double *shares)
{
    int64_t at = 0;
    for (int64_t s = 0; s < sequences; s++) {
        int64_t worse = 0;
        for (const int64_t end = at + predictions[s]; at < end; at++)
            worse += sides[2][at] * sides[1][at] > sides[0][at] * sides[3][at];
        shares[s] = (double)worse / (double)predictions[s];
    }
}

/* Sequences that all show the same side tell nothing of how often the other one occurs: none. Equal measurements do
 * not vary. */
static struct ratio_interval within_shares(struct ratio_interval interval, const struct difference *tokens,
                                           int64_t count)
{
    const bool one_sided = tokens->greater == count || (tokens->greater == 0 && tokens->smaller > 0);
    if (interval.method == RATIO_NONE || one_sided) return (struct ratio_interval){NAN, NAN, RATIO_NONE};
    return (struct ratio_interval){fmax(interval.low, 0), fmin(interval.high, 1), interval.method};
}

static enum status shares_measure(const double *const *sides, const int64_t *predictions, int64_t sequences,
                                  uint64_t seed, struct token_difference *out, struct error *error)
{
    double *shares = NULL, *none = NULL;
    struct difference found;
    enum status status;
    int64_t tokens = 0;
    for (int64_t s = 0; s < sequences; s++) tokens += predictions[s];
    if ((status = memory_new(sequences, sizeof *shares, "shares of tokens", &shares, error)) != STATUS_OK) goto done;
    if ((status = memory_new(sequences, sizeof *none, "shares of tokens", &none, error)) != STATUS_OK) goto done;
    worse_shares(sides, predictions, sequences, shares);
    const struct difference_pair pair = {{none, NULL}, {shares, NULL}};
    if ((status = difference_measure(&pair, 1, predictions, sequences, seed, &found, error)) != STATUS_OK) goto done;
    out->worse_share = found.b;
    out->worse_interval = within_shares(found.interval, &out->tokens, tokens);
done:
    memory_free(none);
    memory_free(shares);
    return status;
}

enum status token_difference_measure(const struct token_pair *pair, const int64_t *predictions, int64_t sequences,
                                     const struct difference *by_sequence, uint64_t seed, struct token_difference *out,
                                     struct error *error)
{
    double *values = NULL;
    int64_t *ones = NULL, tokens = 0;
    enum status status;
    for (int64_t s = 0; s < sequences; s++) tokens += predictions[s];
    *out = (struct token_difference){.design_effect = NAN};
    if ((status = memory_new(DOUBLES * tokens, sizeof *values, "losses of tokens", &values, error)) != STATUS_OK)
        goto done;
    if ((status = memory_new(tokens, sizeof *ones, "losses of tokens", &ones, error)) != STATUS_OK) goto done;
    const double *const sides[DOUBLES] = {values, values + tokens, values + 2 * tokens, values + 3 * tokens};
    widen(pair->a.over, tokens, values);
    widen(pair->a.under, tokens, values + tokens);
    widen(pair->b.over, tokens, values + 2 * tokens);
    widen(pair->b.under, tokens, values + 3 * tokens);
    for (int64_t i = 0; i < tokens; i++) ones[i] = 1;
    const struct difference_pair whole = {{sides[0], sides[1]}, {sides[2], sides[3]}};
    if ((status = difference_measure(&whole, 1, ones, tokens, seed, &out->tokens, error)) != STATUS_OK) goto done;
    if (out->tokens.standard_error > 0)
        out->design_effect = pow(by_sequence->standard_error / out->tokens.standard_error, 2);
    status = shares_measure(sides, predictions, sequences, seed, out, error);
done:
    memory_free(ones);
    memory_free(values);
    return status;
}

int64_t token_difference_bytes(int64_t sequences, int64_t predictions)
{
    const int64_t word = sizeof(double);
    return (DOUBLES + 1) * predictions * word + (2 * sequences + BOOTSTRAP_DRAWS) * word;
}
