"""The order in which sides are measured. They take turns, so that a disturbance of the machine hits all of them."""


def turns(sides, count):
    """(round, side) pairs. Each round has every side once, and begins with another side than the round before."""
    for number in range(count):
        shift = number % len(sides) if sides else 0
        for side in sides[shift:] + sides[:shift]:
            yield number, side
