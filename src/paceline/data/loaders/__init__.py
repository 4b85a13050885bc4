"""One file per family of datasets; each exports its layouts and the functions that read them."""
