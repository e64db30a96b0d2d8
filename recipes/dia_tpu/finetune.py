"""Fine-tunes Dia: `python dia_tpu/finetune.py --train_config configs/train/default.json --audio_folder FOLDER
--output_dir FOLDER --num_cores 8`. The same as `python -m tpulab_recipes.dia finetune`."""

import sys

from tpulab_recipes.dia.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["finetune", *sys.argv[1:]]))
