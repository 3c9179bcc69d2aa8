from nmt.commands.programs import train

if __name__ == "__main__":
    train()
