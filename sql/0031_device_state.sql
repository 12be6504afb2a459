-- What a worker says of a device of computation: its state, faults in a row, and why it is not in use; null: the CPU.
alter table workers add column device_state jsonb;
