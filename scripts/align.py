from nmt.commands.programs import align

if __name__ == "__main__":
    align()
