"""AlexNet on Fashion-MNIST: one image classifier, on one device or on all of them (notebooks 01 and 02)."""
