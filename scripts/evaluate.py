from nmt.commands.evaluate import main

if __name__ == "__main__":
    main()
