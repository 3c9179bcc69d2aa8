from nmt.commands.programs import serve

if __name__ == "__main__":
    serve()
