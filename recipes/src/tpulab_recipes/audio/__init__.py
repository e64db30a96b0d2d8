"""Sound for the voice recipes. Import what you need from its module; each is one idea:

- `files`: reading, resampling and writing
- `mel`: mel spectrograms as matrix products, equal to librosa's
- `codec`: the DAC codec of transformers in static shapes
- `phonemes`, `formants`, `corpus`: a small synthetic corpus with exact phoneme durations
- `alignments`: TextGrids, and whole frames of them
- `vocoders`: sound of mel spectrograms
- `pictures`: players and spectrograms for notebooks
"""
