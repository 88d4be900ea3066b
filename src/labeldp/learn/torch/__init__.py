"""Neural learners (extra ``torch``): losses for anybody's loop, networks, and a small trainer."""

from labeldp.learn.torch.losses import bag_loss, forward_loss, soft_target_loss
from labeldp.learn.torch.networks import mlp, small_cnn
from labeldp.learn.torch.trainer import Recipe, Trained, train

__all__ = ["Recipe", "Trained", "bag_loss", "forward_loss", "mlp", "small_cnn", "soft_target_loss", "train"]
