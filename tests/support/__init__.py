"""What tests share that is a program of its own."""
