"""What tools/chaos is made of."""
