"""Tests of the driver: that it notices what it must not overlook. Run by a quick run, or by python3 -m unittest."""
