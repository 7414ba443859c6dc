"""Tests of the benchmark's driver. `make test` runs them, as does: python3 -m unittest discover -s bench/driver/tests -t bench"""
