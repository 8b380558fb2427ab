"""What all controllers act through: background tasks, the engine, the settings in force."""
