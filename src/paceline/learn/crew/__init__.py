"""Cohorts that others compute: processes of this machine or of a cluster."""
