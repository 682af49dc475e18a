"""The `weft` command: each subcommand is a module with `add_arguments` and `run`; `main` joins them."""
