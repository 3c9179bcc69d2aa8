from nmt.commands.programs import heatmap

if __name__ == "__main__":
    heatmap()
