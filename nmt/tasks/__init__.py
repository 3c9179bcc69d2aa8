"""Generated parallel text: a bilingual grammar, the copy task."""
