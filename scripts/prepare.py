from nmt.commands.prepare import main

if __name__ == "__main__":
    main()
