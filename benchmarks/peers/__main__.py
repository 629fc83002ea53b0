from benchmarks import command

if __name__ == "__main__":
    command.main("peers")
