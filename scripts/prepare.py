from nmt.commands.programs import prepare

if __name__ == "__main__":
    prepare()
