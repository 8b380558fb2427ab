"""What the user sees and touches; drawn from item models, acting through controllers."""
