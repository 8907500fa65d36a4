"""The models of the work as printed, with the corrections of 003-spec (D-3): for comparison.

`vmlm` is the full model, equations 5.3 to 5.16; `vmlm_simplified` is 5.17 to 5.19 with 5.14 to
5.16. Constraint 5.15, which would only force r to 0 where x is 0, is left out: nothing rewards
r = 1, and its constant is the one number in the model that spoils the solver's arithmetic.
"""

from weir.migration.programs import Instance
from weir.milp import Model


def vmlm(instance: Instance, steps: int) -> Model:
    """The full model: path choice, cost and memory that change with time."""
    model = Model()
    use: dict[tuple[int, int], list[tuple[int, float]]] = {}
    times = range(1, steps + 1)
    for vm, routes in enumerate(instance.routes):
        finish = model.column(lower=1, upper=steps, whole=True)
        chosen = [model.column(whole=True) for _ in routes]
        model.row([(p, 1.0) for p in chosen], least=1, most=1)  # 5.8
        most = max(instance.width(vm, route) for route in range(len(routes)))
        moved: list[tuple[int, float]] = []
        for time in times:
            x = model.column(upper=most)
            z = model.column(instance.cost(vm, time), whole=True)  # 5.3
            y1, y2 = model.column(whole=True), model.column(whole=True)
            model.row([(z, 1), (y1, 1)], least=1)  # 5.9
            model.row([(finish, 1), (y1, steps)], most=steps + time - 1)  # 5.10
            model.row([(y2, 1), (z, -1)], least=0)  # 5.11
            model.row([(finish, -1), (y2, steps)], most=steps - time)  # 5.12
            _finish_after_sending(model, x, finish, time, most)
            for route, pools in enumerate(routes):
                for pool in pools:
                    u = model.column(upper=most)
                    model.row([(u, 1), (chosen[route], -most)], most=0)  # 5.5
                    model.row([(u, 1), (x, -1)], most=0)  # 5.6
                    model.row([(u, 1), (x, -1), (chosen[route], -most)], least=-most)  # 5.7
                    use.setdefault((pool, time), []).append((u, 1.0))
            moved += [(x, 1.0), (z, -instance.growth(vm, time))]
        volume = instance.volume(vm)
        model.row(moved, least=volume, most=volume)  # 5.13
    _capacity(model, instance, use)  # 5.4
    return model


def vmlm_simplified(instance: Instance, steps: int) -> Model:
    """The simplified model: the first route of every machine, constant cost, no growth."""
    model = Model()
    use: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for vm, routes in enumerate(instance.routes):
        finish = model.column(instance.cost(vm, 1), lower=1, upper=steps, whole=True)  # 5.17
        most = instance.width(vm, 0)
        moved = []
        for time in range(1, steps + 1):
            x = model.column(upper=most)
            _finish_after_sending(model, x, finish, time, most)
            moved.append((x, 1.0))
            for pool in routes[0]:
                use.setdefault((pool, time), []).append((x, 1.0))
        volume = instance.volume(vm)
        model.row(moved, least=volume, most=volume)  # 5.18
    _capacity(model, instance, use)  # 5.19
    return model


def _finish_after_sending(model: Model, x: int, finish: int, time: int, most: float) -> None:
    r = model.column(whole=True)
    model.row([(r, most), (x, -1)], least=0)  # 5.14
    model.row([(finish, 1), (r, -time)], least=0)  # 5.16


def _capacity(
    model: Model, instance: Instance, use: dict[tuple[int, int], list[tuple[int, float]]]
) -> None:
    for (pool, _), terms in use.items():
        model.row(terms, most=instance.room[pool])
