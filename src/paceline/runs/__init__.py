"""What a run is made of, and how runs are carried out together."""
