/* list.h: the SQL around every list. `inner` selects (number, document) in any order, with $1 the limit and $2 the
 * cursor ("number < $2"), and has no order or limit of its own. One row more than asked for tells whether there is a
 * next page. `first` are queries before it (WITH) that choose what it shows. */
#ifndef STORE_LIST_H
#define STORE_LIST_H

#define LIST_OF(inner)          "with page (number, document) as (" inner LIST_END
#define LIST_WITH(first, inner) "with " first ", page (number, document) as (" inner LIST_END
#define LIST_END                                                                                                      \
    " order by 1 desc limit $1 + 1),"                                                                                 \
    " shown as (select * from page order by number desc limit $1)"                                                    \
    " select json_build_object('items', coalesce((select json_agg(document order by number desc) from shown), '[]')," \
    " 'next', case when (select count(*) from page) > $1 then (select min(number)::text from shown) end)"

#endif
