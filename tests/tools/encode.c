/* encode.c: encodes the texts on standard input with a tokenizer, for tokenizer_differential.py.
 * encode TOKENIZER_JSON|bytes; a text is a 32-bit length (its highest bit: with special tokens) and so many bytes; the
 * answer is a count and so many 32-bit ids, or 0xffffffff for a text that is refused. */
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    struct error error;
    struct tokenizer *tokenizer;
    if (argc != 2) return 2;
    bool bytes = strcmp(argv[1], "bytes") == 0;
    if ((bytes ? tokenizer_open_bytes(&tokenizer, &error) : tokenizer_open(argv[1], &tokenizer, &error)) != STATUS_OK) {
        fprintf(stderr, "%s\n", error.detail);
        return 1;
    }
    uint32_t length;
    while (fread(&length, sizeof length, 1, stdin) == 1) {
        size_t size = length & 0x7fffffff;
        char *text = malloc(size + 1);
        struct token_list list = {0};
        if (text == NULL || fread(text, 1, size, stdin) != size) return 1;
        uint32_t count = UINT32_MAX;
        if (tokenizer_encode(tokenizer, text, size, length >> 31, &list, &error) == STATUS_OK)
            count = (uint32_t)list.count;
        else
            fprintf(stderr, "%s\n", error.detail);
        fwrite(&count, sizeof count, 1, stdout);
        if (count != UINT32_MAX) fwrite(list.ids, sizeof *list.ids, count, stdout);
        tokenizer_list_free(&list);
        free(text);
    }
    tokenizer_close(tokenizer);
    return 0;
}
