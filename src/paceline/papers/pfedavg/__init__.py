"""P-FedAvg, ToN 2022."""
