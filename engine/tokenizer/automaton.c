#include "tokenizer/automaton.h"

#include "base/memory.h"

#include <string.h>

/* A state is a prefix of some pattern; number 0 is the empty one. States are numbered breadth first, so the states one
 * byte longer than state s are children[s] to children[s + 1] - 1, in ascending order of that byte. */
struct automaton {
    uint32_t states;
    uint32_t *children;
    uint32_t *fallback; /* the longest other state that is a suffix of this one */
    uint32_t *found;    /* number of the longest pattern that is a suffix of this state, plus 1; 0: none */
    uint16_t *depth;    /* length of the state in bytes */
    uint8_t *byte;      /* last byte of the state */
    uint32_t *sizes;    /* of the patterns */
    uint32_t root[256]; /* the children of state 0 by their byte; 0: none */
};

/* The patterns that begin with a state: [low, high) of the sorted list. */
struct range {
    uint32_t low, high;
};

static uint32_t child(const struct automaton *automaton, uint32_t state, uint8_t byte)
{
    if (state == 0) return automaton->root[byte];
    uint32_t from = automaton->children[state];
    const uint32_t end = automaton->children[state + 1];
    for (uint32_t to = end; from < to;) {
        const uint32_t middle = from + (to - from) / 2;
        if (automaton->byte[middle] < byte)
            from = middle + 1;
        else
            to = middle;
    }
    return from < end && automaton->byte[from] == byte ? from : 0;
}

/* Number of states: each pattern adds one for each byte beyond its common prefix with the pattern before. */
static int64_t count_states(const struct automaton_pattern *patterns, uint32_t count)
{
    int64_t states = 1;
    for (uint32_t i = 0; i < count; i++) {
        size_t shared = 0;
        while (i > 0 && shared < patterns[i].size && shared < patterns[i - 1].size &&
               patterns[i].bytes[shared] == patterns[i - 1].bytes[shared])
            shared++;
        states += (int64_t)(patterns[i].size - shared);
    }
    return states;
}

/* Numbers the states; `ranges` holds an entry for each. */
static void grow(struct automaton *automaton, const struct automaton_pattern *patterns, uint32_t count,
                 struct range *ranges)
{
    uint32_t next = 1;
    ranges[0] = (struct range){0, count};
    for (uint32_t state = 0; state < automaton->states; state++) {
        const size_t depth = automaton->depth[state];
        uint32_t at = ranges[state].low;
        const uint32_t high = ranges[state].high;
        if (at < high && patterns[at].size == depth) automaton->found[state] = ++at;
        automaton->children[state] = next;
        while (at < high) {
            const uint8_t byte = (uint8_t)patterns[at].bytes[depth];
            const uint32_t low = at;
            while (at < high && (uint8_t)patterns[at].bytes[depth] == byte) at++;
            ranges[next] = (struct range){low, at};
            automaton->byte[next] = byte;
            automaton->depth[next] = (uint16_t)(depth + 1);
            if (state == 0) automaton->root[byte] = next;
            next++;
        }
    }
    automaton->children[automaton->states] = next;
}

/* Sets the fallbacks, where the search goes on when no byte fits. A fallback is shorter than its state, so going by
 * depth finds it linked already. */
static void link_states(struct automaton *automaton)
{
    for (uint32_t state = 0; state < automaton->states; state++)
        for (uint32_t c = automaton->children[state]; c < automaton->children[state + 1]; c++) {
            uint32_t at = automaton->fallback[state], to = 0;
            if (state != 0) {
                while ((to = child(automaton, at, automaton->byte[c])) == 0 && at != 0) at = automaton->fallback[at];
            }
            automaton->fallback[c] = to;
            if (automaton->found[c] == 0) automaton->found[c] = automaton->found[to];
        }
}

static enum status allocate(struct automaton *automaton, int64_t count, struct range **ranges, struct error *error)
{
    enum status status;
    const int64_t states = automaton->states;
    const char *what = "added tokens";
    if ((status = memory_new(states + 1, sizeof(uint32_t), what, &automaton->children, error)) != STATUS_OK)
        return status;
    if ((status = memory_new(states, sizeof(uint32_t), what, &automaton->fallback, error)) != STATUS_OK) return status;
    if ((status = memory_new(states, sizeof(uint32_t), what, &automaton->found, error)) != STATUS_OK) return status;
    if ((status = memory_new(states, sizeof(uint16_t), what, &automaton->depth, error)) != STATUS_OK) return status;
    if ((status = memory_new(states, sizeof(uint8_t), what, &automaton->byte, error)) != STATUS_OK) return status;
    if ((status = memory_new(count + 1, sizeof(uint32_t), what, &automaton->sizes, error)) != STATUS_OK) return status;
    return memory_new(states, sizeof **ranges, what, ranges, error);
}

enum status automaton_new(const struct automaton_pattern *patterns, uint32_t count, struct automaton **out,
                          struct error *error)
{
    struct automaton *automaton = NULL;
    struct range *ranges = NULL;
    const int64_t states = count_states(patterns, count);
    *out = NULL;
    if (states > AUTOMATON_STATES)
        return error_set(error, STATUS_UNSUPPORTED,
                         "the added tokens have %lld different beginnings together, at most %d are done",
                         (long long)states, AUTOMATON_STATES);
    enum status status = memory_new(1, sizeof *automaton, "added tokens", &automaton, error);
    if (status != STATUS_OK) return status;
    automaton->states = (uint32_t)states;
    if ((status = allocate(automaton, count, &ranges, error)) == STATUS_OK) {
        for (uint32_t i = 0; i < count; i++) automaton->sizes[i] = (uint32_t)patterns[i].size;
        grow(automaton, patterns, count, ranges);
        link_states(automaton);
        *out = automaton;
        automaton = NULL;
    }
    memory_free(ranges);
    automaton_free(automaton);
    return status;
}

void automaton_free(struct automaton *automaton)
{
    if (automaton == NULL) return;
    memory_free(automaton->children);
    memory_free(automaton->fallback);
    memory_free(automaton->found);
    memory_free(automaton->depth);
    memory_free(automaton->byte);
    memory_free(automaton->sizes);
    memory_free(automaton);
}

bool automaton_find(const struct automaton *automaton, const char *text, size_t bytes, size_t from, uint32_t *pattern,
                    size_t *start, size_t *end)
{
    uint32_t state = 0;
    bool any = false;
    for (size_t at = from; at < bytes; at++) {
        const uint8_t byte = (uint8_t)text[at];
        uint32_t next;
        while ((next = child(automaton, state, byte)) == 0 && state != 0) state = automaton->fallback[state];
        state = next;
        /* the current state begins behind the best match's start: no later match can begin at or before that start */
        if (any && at + 1 - automaton->depth[state] > *start) break;
        if (automaton->found[state] == 0) continue;
        const uint32_t which = automaton->found[state] - 1;
        const size_t begin = at + 1 - automaton->sizes[which];
        if (any && begin > *start) continue;
        any = true;
        *pattern = which;
        *start = begin;
        *end = at + 1;
    }
    return any;
}
