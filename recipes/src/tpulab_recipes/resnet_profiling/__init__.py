"""ResNet18 for 32 x 32 images on made-up data: something to profile, and three mistakes to find (notebook
03)."""
