/* shared_measurements.h: checkpoints of the same content share measurements. */
#ifndef STORE_SHARED_MEASUREMENTS_H
#define STORE_SHARED_MEASUREMENTS_H

/* The metrics that are not shared, as an SQL list. They compare a checkpoint with the one before it, so their value
 * depends on more than the checkpoint's own content. */
#define BETWEEN_CHECKPOINTS "('weight_change', 'weight_cosine')"

/* The measurements of a metric that checkpoints c of `trajectory` share, as the from clause of a statement: m, the
 * newest of each series of other checkpoints of the same content, where c itself was not measured so. `chosen`: further
 * conditions on the measurements n. The where clause narrows t.trajectory. */
#define SHARED_MEASUREMENTS(trajectory, metric, chosen)                                                        \
    " from same_content t join checkpoints c on c.id = t.checkpoint cross join lateral"                        \
    " (select distinct on (n.series) n.* from checkpoints k join newest n on n.checkpoint = k.id"              \
    " and n.metric = " metric chosen " where k.sha256 = c.sha256 and k.id <> c.id and not exists (select from" \
    " newest o where o.trajectory = " trajectory " and o.metric = " metric " and o.series = n.series"          \
    " and o.checkpoint = c.id) order by n.series, n.number desc) m"

#endif
