from nmt.commands.programs import export

if __name__ == "__main__":
    export()
