-- A checkpoint whose newest numbers go with their run has changed: its rows show those before, or none. Whoever keeps a
-- copy of the table, and gates, are told of it and of what shares its content.
create or replace function newest_remove() returns trigger language plpgsql as $$
begin
    perform change_of_checkpoint('changed', c) from checkpoints c where c.id in (
        with lost as (select distinct n.checkpoint as id from newest n join removed o on n.checkpoint = o.checkpoint
            and n.run = o.run)
        select id from lost union select k.id from lost join checkpoints at on at.id = lost.id
            join checkpoints k on k.sha256 = at.sha256) order by c.number;
    delete from newest n using (select distinct checkpoint, run from removed) o where n.checkpoint = o.checkpoint
        and n.run = o.run;
    insert into newest (trajectory, metric, series, checkpoint, value, low, high, run, number)
        select distinct on (c.trajectory, m.metric, s.id, c.id) c.trajectory, m.metric, s.id, c.id,
            m.value, m.low, m.high, m.run, r.number
        from measurements m join checkpoints c on c.id = m.checkpoint join runs r on r.id = m.run
            and r.result_epoch = m.epoch
        join series s on (s.label, s.dataset, s.protocol, s.calibration, s.method, s.bits)
            = (m.label, m.dataset, m.protocol, m.calibration, m.method, m.bits)
        where m.checkpoint in (select checkpoint from removed)
        order by c.trajectory, m.metric, s.id, c.id, r.number desc, m.epoch desc on conflict do nothing;
    return null;
end $$;
