"""`python -m zenitmq` is the `zenit` command."""

from .cli.main import run

if __name__ == "__main__":
    run()
