"""What contextual vectors are for, shown in a minute: one ambiguous word, several meanings."""
