"""The command moec that the package carries."""
import os
import sys


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "moec")
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
