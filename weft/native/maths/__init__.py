"""Elementary functions in scalar instructions, which no target owns."""
