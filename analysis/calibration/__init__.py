"""How far a decision's distribution over the options says when it is wrong: calibration and selective prediction."""
