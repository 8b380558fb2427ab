"""Model folders as published: configuration files and safetensors, checked before use."""
