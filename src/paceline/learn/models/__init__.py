"""Networks by name, a user's own network by reference, and the check that a network can be trained here."""

from paceline.learn.models.check import check_trainable, to_groupnorm
from paceline.learn.models.registry import MODELS, build, default_for
from paceline.learn.models.user import lend_model, load_user_model

__all__ = ["MODELS", "build", "default_for", "lend_model", "load_user_model", "check_trainable", "to_groupnorm"]
