"""`python -m zenitmq` is the `zenit` command."""

from .cli.start import run

if __name__ == "__main__":
    run()
