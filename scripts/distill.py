from nmt.commands.programs import distill

if __name__ == "__main__":
    distill()
