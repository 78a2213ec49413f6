"""The command: whether a host is fit for the plugin."""
