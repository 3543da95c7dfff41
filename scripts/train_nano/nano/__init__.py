"""The model, its data and its losses, as the scripts beside this package use them."""
