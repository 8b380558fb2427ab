"""From a model folder to a model that is ready: device, precision and backend, then the weights."""
