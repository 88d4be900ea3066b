"""Laws that every mechanism must obey, for ours and for those of others.

>>> from labeldp import LabelSpace, RandomizedResponse
>>> from labeldp.testing import check_channel
>>> report = check_channel(RandomizedResponse(LabelSpace(["no", "yes"]), epsilon=1.0), asked=1.0)
>>> report.laws[2]
'epsilon_is_the_largest_ratio'

:mod:`labeldp.testing.strategies` draws label spaces, priors, ids and channels for property tests; it needs hypothesis.
"""

from labeldp.testing.laws import LAWS, Report, check_channel
from labeldp.testing.statistics import p_value, sharpened
from labeldp.testing.subject import BrokenLawError, Subject

__all__ = ["LAWS", "BrokenLawError", "Report", "Subject", "check_channel", "p_value", "sharpened"]
