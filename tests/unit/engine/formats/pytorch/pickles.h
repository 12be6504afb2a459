/* pickles.h: parts of pickles as torch.save writes them. */
#ifndef PICKLES_H
#define PICKLES_H

#define PROTO         "\x80\2"
#define TEXT1(letter) "X\1\0\0\0" letter /* a text of one byte */
#define HOOKS         "ccollections\nOrderedDict\n)R"
/* The storage `key` (one byte) of `count` numbers, an integer's opcode. */
#define STORAGE(type, key, count) "(X\7\0\0\0storagec" type "\n" TEXT1(key) "X\3\0\0\0cpu" count "tQ"
/* `place`: offset, shape and strides. */
#define TENSOR_OF(storage, place) "ctorch._utils\n_rebuild_tensor_v2\n(" storage place "\x89" HOOKS "tR"
#define FLOATS                    STORAGE("torch\nFloatStorage", "0", "K\4")
#define PLACE                     "K\0K\4\x85K\1\x85"
#define TENSOR                    TENSOR_OF(FLOATS, PLACE) /* all four numbers of storage 0 */
#define DICT_OF(value)            PROTO "}" TEXT1("a") value "s."
#define PLACED(place)             DICT_OF(TENSOR_OF(FLOATS, place))

#endif
