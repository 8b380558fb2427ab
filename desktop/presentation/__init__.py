"""What the window shows, as data: rows, live replies, states, and the words for them."""
