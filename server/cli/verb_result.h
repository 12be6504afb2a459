/* verb_result.h: the result of a run as lines for a person. */
#ifndef CLI_VERB_RESULT_H
#define CLI_VERB_RESULT_H

#include <jansson.h>
#include <stdio.h>

/* Prints id, kind and state, then one line for each number, text and interval of the result. Lists and objects are
 * named with their number of items: --json prints them. */
void verb_result_print(const json_t *run, FILE *out);

#endif
