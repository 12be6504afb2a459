-- A number measured on other tokens is another metric: which ones (and in which precision) is part of what a measurement is.
alter table measurements add column protocol text not null default '';
alter table measurements drop constraint measurements_once;
alter table measurements add constraint measurements_once unique (run, epoch, checkpoint, metric, label, dataset, protocol);
