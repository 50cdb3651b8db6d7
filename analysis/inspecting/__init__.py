"""Episodes as logs of Inspect (inspect_ai), so that `inspect view` shows them. Needs the extra `inspect`."""
