-- Parameters of a run required a kind of device as long as gradients in bf16 were made on CUDA devices alone. Now
-- only a request does. A run that waits, or is tried again, still goes where it was meant to go.
update runs set requires = coalesce(requires, '{}'::jsonb) || jsonb_build_object('device', device_wanted)
    where state <> 'succeeded' and device_wanted is not null;
alter table runs drop column device_wanted;
