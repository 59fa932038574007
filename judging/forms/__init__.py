"""What the pages of judging ask for."""
