-- What a curve needs of a trajectory's checkpoints, without their rows: these lie far apart, since checkpoints of many
-- trajectories come in turn.
create index checkpoints_of_curves on checkpoints (trajectory, id) include (name, step, tokens, learning_rate);
