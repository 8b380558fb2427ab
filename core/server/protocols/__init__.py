"""One module for each protocol: from a body to a request, from events to an answer."""
