"""What similarities of a corpus rest on: lint findings and relevance between parts of speech."""
