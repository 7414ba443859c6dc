"""The arena: an application of many parts, written for several servers, and the referee that checks and measures them."""
