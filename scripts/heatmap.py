from nmt.commands.heatmap import main

if __name__ == "__main__":
    main()
