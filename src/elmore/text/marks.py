"""The two marks around every sentence that a biLM reads."""

SENTENCE_BEGIN = "<S>"
SENTENCE_END = "</S>"
