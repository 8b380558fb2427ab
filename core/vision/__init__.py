"""From a picture file to patches: decoding, resizing, the image's key."""
