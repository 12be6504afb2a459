-- Memory of a device, beside that of the host (0025, 0027). What a worker's device has is in its device_state.
-- More than the device had of a worker that could not plan the run within it, or what a plan needs; null: neither.
alter table runs add column device_memory_wanted bigint;
-- The most that the devices of workers that it submits have; null: not known.
alter table launchers add column device_memory_bytes bigint;
