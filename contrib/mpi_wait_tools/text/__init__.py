"""Text for people: units, bars, charts, colours, errors."""
