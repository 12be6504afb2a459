/* tree_cost.h: what a text of JSON takes of memory as a tree of jansson, computed before it is parsed. Whoever parses
 * what others wrote asks for it first. */
#ifndef JSON_TREE_COST_H
#define JSON_TREE_COST_H

#include <stddef.h>

/* The most bytes that the tree of this text takes: 10 to 80 times the text. Accepts any bytes, also text that is not
 * JSON. */
size_t tree_cost(const char *bytes, size_t length);

#endif
