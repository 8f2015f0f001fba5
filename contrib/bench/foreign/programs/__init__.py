"""Training programs, each as its library's documentation has it; `truth` counts along."""
