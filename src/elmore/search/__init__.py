"""Every use of every word: nearest uses in context, senses, and the static picture beside them."""
