"""What docs/testbed/raw.json keeps of the runs, for the scripts that fill numbers into pages: by part, case and
congestion control."""

import json
import sys

from estimates import Estimates


class Measured:
    """Means are the command's own (`linkhold estimate`)."""

    def __init__(self, docs):
        self._parts = json.loads((docs / "raw.json").read_text())
        self._estimates = Estimates()

    def parts(self, begin):
        """Names of the parts that begin with `begin`."""
        found = [part for part in self._parts if part.startswith(begin)]
        if not found:
            sys.exit(f"raw.json has no part {begin}")
        return found

    def runs(self, part, case, cc="cubic"):
        """The runs of a cell; none if the part was not measured with this congestion control."""
        found = [run for run in self._parts[part] if (run["case"], run["cc"]) == (case, cc)]
        if not found and any(run["cc"] == cc for run in self._parts[part]):
            sys.exit(f"raw.json: part {part} has no run of {case} with {cc}")
        return found

    def mean_and_half(self, part, case, key, cc="cubic"):
        values = [run[key] for run in self.runs(part, case, cc) if run[key] is not None]
        if not values:
            sys.exit(f"raw.json: part {part} has no {key} of {case} with {cc}")
        return self._estimates.of(values)

    def mean(self, part, case, key, cc="cubic"):
        return self.mean_and_half(part, case, key, cc)[0]

    def beyond_by_seed(self, part, case, other, key, cc="cubic"):
        """How much more a case has than another, of each seed."""
        ours, theirs = ({run["seed"]: run[key] for run in self.runs(part, one, cc)} for one in (case, other))
        if ours.keys() != theirs.keys() or None in [*ours.values(), *theirs.values()]:
            sys.exit(f"raw.json: part {part} has not {key} of {case} and {other} with {cc} in the same seeds")
        return [ours[seed] - theirs[seed] for seed in ours]

    def estimate(self, values):
        """Mean and half of its 95 % interval (None with fewer than two)."""
        return self._estimates.of(values)

    def mean_of(self, values):
        return self._estimates.of(values)[0]

    def means(self, parts, cases, key, ccs):
        """The mean of every cell that was measured."""
        cells = [(part, case, cc) for part in parts for case in cases for cc in ccs if self.runs(part, case, cc)]
        return [self.mean(part, case, key, cc) for part, case, cc in cells]
