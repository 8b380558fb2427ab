"""What window, engine and kernels need of the operating system alike; imports none of them."""
