from nmt.commands.programs import compare

if __name__ == "__main__":
    compare()
