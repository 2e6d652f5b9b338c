"""Tests of the PyTorch front; they need torch (`make test-torch`)."""
