-- "1 sequence", no longer "1 sequences", in the words for an evaluation and a calibration.
create or replace function series_of(run text, epoch bigint, dataset text) returns text language sql stable
    return coalesce((select dataset || ': ' || (x.result ->> 'sequences')
        || case x.result ->> 'sequences' when '1' then ' sequence, ' else ' sequences, ' end
        || (x.result ->> 'tokens') || ' tokens'
        from run_results x where x.run = series_of.run and x.epoch = series_of.epoch and dataset <> ''), dataset);

update series set evaluated_on = replace(evaluated_on, ': 1 sequences, ', ': 1 sequence, '),
    calibrated_on = replace(calibrated_on, ': 1 sequences, ', ': 1 sequence, ')
    where evaluated_on like '%: 1 sequences, %' or calibrated_on like '%: 1 sequences, %';
