"""The benchmark driver. Standard library only; one noun per module; `commands` ties them together."""
