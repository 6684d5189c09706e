"""What is wrong, and what to do: why one run is where it is, and what a whole store suffers from.

Data in, data out: stores say what is so, pure functions say what that means, edges show it.
"""

from __future__ import annotations

from perdure.diagnosis.findings import Finding, Severity, worst
from perdure.diagnosis.kinds import KINDS
from perdure.diagnosis.looking import why
from perdure.diagnosis.situations import Cause, Explanation, Holder, Situation
from perdure.diagnosis.why import explain

__all__ = ["KINDS", "Cause", "Explanation", "Finding", "Holder", "Severity", "Situation", "explain", "why", "worst"]
