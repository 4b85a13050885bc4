"""``python -m paceline``: the same as the command."""

from paceline.cli.main import main

if __name__ == "__main__":
    main()
