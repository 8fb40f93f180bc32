"""The explain room: (encoder, left, right) -> Explanation; faithfulness; corpus patterns."""
