"""What is printed, and how: units, bars, charts, colours, errors."""
