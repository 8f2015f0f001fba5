"""The loop that lets idle nodes sleep and wakes them."""
