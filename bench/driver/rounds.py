"""Rounds: the order in which sides are measured. Sides take turns, so that what the machine does hits all of them."""


def turns(sides, count):
    """(round, side) pairs: each round has every side once and begins with another one."""
    for number in range(count):
        shift = number % len(sides) if sides else 0
        for side in sides[shift:] + sides[:shift]:
            yield number, side
