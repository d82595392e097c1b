"""What models cost: prices, ceilings, and the account of each document and question."""
