"""What every part of the window stands on: its look, and traces without words."""
