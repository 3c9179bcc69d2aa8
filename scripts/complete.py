from nmt.commands.programs import complete

if __name__ == "__main__":
    complete()
