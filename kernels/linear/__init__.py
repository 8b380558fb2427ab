"""Linear maps whose weights are kept in fewer bits than the model computes in."""
