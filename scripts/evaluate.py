from nmt.commands.programs import evaluate

if __name__ == "__main__":
    evaluate()
