"""Documents as lines to translate, and back."""
