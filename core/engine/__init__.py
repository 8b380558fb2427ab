"""From a request to a reply: session, prefill, decode, sampling, counters."""
