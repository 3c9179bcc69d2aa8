from nmt.commands.encode import main

if __name__ == "__main__":
    main()
