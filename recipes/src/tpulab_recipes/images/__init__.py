"""Data sets of images. Import what you need from its module; each is one idea:

- `files`: an image decoded, encoded, resized and cropped
- `fetch`, `download`, `command`: from tables of addresses to shards
- `shards`: images with their captions, scores and classes, as `download` or img2dataset stores them
- `idx`, `garments`: the files of MNIST and its relatives, and small grey garments drawn here
- `frechet`, `inception`, `comparison`: how far apart two sets of images are
- `tfrecord`, `messages`: the files and messages of TensorFlow, which need not be installed
"""
