/* verb_result.h: what a run found, as lines for a person. */
#ifndef CLI_VERB_RESULT_H
#define CLI_VERB_RESULT_H

#include <jansson.h>
#include <stdio.h>

/* Its id, kind and state, then a line for each number, text and interval of the result; lists and objects are named
 * with how much they hold: --json prints them. */
void verb_result_print(const json_t *run, FILE *out);

#endif
