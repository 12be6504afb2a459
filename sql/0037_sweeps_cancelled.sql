-- A run that several sweeps share is wanted by those alone that were not cancelled.
alter table sweeps add column cancelled_at timestamptz;
