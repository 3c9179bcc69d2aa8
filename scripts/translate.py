from nmt.commands.programs import translate

if __name__ == "__main__":
    translate()
