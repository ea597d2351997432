"""The same comparison several times, with other seeds: how much of a difference is chance?"""
