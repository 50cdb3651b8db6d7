"""How many cases and trials show a difference in success between two planners, paired over cases.

`pilot` reads variance components from a sweep, `latent` is the model they belong to, `claims` tells by formula what
power a design has, `needed` how many cases a wanted power takes, `simulation` counts how often the report's own test
finds the difference in studies that the model draws, and `plans` puts these together.
"""
