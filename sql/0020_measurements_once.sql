-- A measurement without a checkpoint is kept once as well: a unique constraint takes two NULLs for different.
delete from measurements a using measurements b
    where a.checkpoint is null and b.checkpoint is null and a.ctid < b.ctid
    and (a.run, a.epoch, a.metric, a.label, a.dataset, a.protocol)
        = (b.run, b.epoch, b.metric, b.label, b.dataset, b.protocol);
alter table measurements drop constraint measurements_once;
alter table measurements add constraint measurements_once
    unique nulls not distinct (run, epoch, checkpoint, metric, label, dataset, protocol);
