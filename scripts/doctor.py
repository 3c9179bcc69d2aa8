from nmt.commands.programs import doctor

if __name__ == "__main__":
    doctor()
