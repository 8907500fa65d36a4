"""Mixed-integer programs under construction, solved by HiGHS."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from weir.errors import Refused


@dataclass(frozen=True, slots=True)
class Solution:
    """What the solver found: values by column, none if it found no solution, and its bound."""

    values: list[float] | None
    objective: float
    bound: float
    proven: bool


@dataclass
class Model:
    """A mixed-integer program under construction: least cost."""

    costs: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    integer: list[int] = field(default_factory=list)
    row_lower: list[float] = field(default_factory=list)
    row_upper: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    indices: list[int] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)

    def column(
        self, cost: float = 0.0, lower: float = 0.0, upper: float = 1.0, *, whole: bool = False
    ) -> int:
        """Adds a variable; gives its position."""
        self.costs.append(cost)
        self.lower.append(lower)
        self.upper.append(upper)
        self.integer.append(int(whole))
        return len(self.costs) - 1

    def row(
        self,
        terms: Sequence[tuple[int, float]],
        *,
        least: float = float("-inf"),
        most: float = float("inf"),
    ) -> None:
        """Adds a constraint on the sum of factor times variable."""
        self.indices += [index for index, _ in terms]
        self.factors += [factor for _, factor in terms]
        self.starts.append(len(self.indices))
        self.row_lower.append(least)
        self.row_upper.append(most)

    def solve(
        self,
        time_limit_s: float,
        start: dict[int, float] | None = None,
        *,
        interior: bool = False,
    ) -> Solution:
        """Solves within the time; `start` may give the values of a known solution.

        With `interior` a linear program is solved by an interior point, to within 1e-8 of the
        optimum: for large flow problems ten times as fast as from corner to corner.

        Raises:
            Refused: no solution exists, as when the horizon is too short.
        """
        import highspy

        solver = _silent_solver()
        solver.setOptionValue("time_limit", max(time_limit_s, 0.01))
        solver.setOptionValue("mip_rel_gap", 1e-9)
        solver.setOptionValue("mip_abs_gap", 0.999 if self._is_whole() else 1e-6)
        if interior:
            solver.setOptionValue("solver", "ipm")
            solver.setOptionValue("run_crossover", "off")
        solver.passModel(self._program())
        if start:
            indices = sorted(start)
            solver.setSolution(len(indices), indices, [start[index] for index in indices])
        solver.run()
        status, found = solver.getModelStatus(), solver.getInfo()
        kinds = highspy.HighsModelStatus
        if status in (kinds.kInfeasible, kinds.kUnbounded, kinds.kUnboundedOrInfeasible):
            raise Refused(f"no plan exists: the model is {solver.modelStatusToString(status)}")
        feasible = found.primal_solution_status == 2
        return Solution(
            list(solver.getSolution().col_value) if feasible else None,
            found.objective_function_value,
            found.mip_dual_bound,
            status == kinds.kOptimal,
        )

    def _is_whole(self) -> bool:
        """Whether the cost of every solution is a whole number."""
        return all(
            cost == 0 or (whole and cost == int(cost))
            for cost, whole in zip(self.costs, self.integer, strict=True)
        )

    def _program(self) -> Any:
        import highspy
        import numpy as np

        program = highspy.HighsLp()
        program.num_col_, program.num_row_ = len(self.costs), len(self.row_lower)
        program.col_cost_ = np.array(self.costs, dtype=np.double)
        program.col_lower_ = np.array(self.lower, dtype=np.double)
        program.col_upper_ = np.array(self.upper, dtype=np.double)
        program.row_lower_ = np.array(self.row_lower, dtype=np.double)
        program.row_upper_ = np.array(self.row_upper, dtype=np.double)
        program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        program.a_matrix_.start_ = np.array(self.starts, dtype=np.int32)
        program.a_matrix_.index_ = np.array(self.indices, dtype=np.int32)
        program.a_matrix_.value_ = np.array(self.factors, dtype=np.double)
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        program.integrality_ = [kinds[whole] for whole in self.integer]
        return program


def _silent_solver() -> Any:
    """A solver that says nothing on stdout, which is the caller's."""
    import highspy

    class Silent(highspy.Highs):
        # HiGHS writes its name when callbacks are set, and Highs() of 1.16 sets them at once.
        def enableCallbacks(self) -> None:  # noqa: N802
            self.silent()
            super().enableCallbacks()  # type: ignore[no-untyped-call]

    solver = Silent()  # type: ignore[no-untyped-call]
    solver.silent()
    return solver
