"""The models on this computer: where they are, and what each needs here before it is loaded."""
