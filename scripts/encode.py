from nmt.commands.programs import encode

if __name__ == "__main__":
    encode()
