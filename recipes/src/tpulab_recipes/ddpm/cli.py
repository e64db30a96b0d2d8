"""The command line: its commands and their flags. What they do is in `commands`."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from tpulab_recipes.ddpm.errors import RecipeError

CONFIG_HELP = (
    "a preset (small, laion256, laion512_large, cifar10, imagenet256), or a .py, .toml or .json file"
)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tpulab_recipes.ddpm",
        description="Diffusion models in JAX: download, encode, train, evaluate, distill, export. "
        "Folders may be local or gs://bucket/path.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    download = commands.add_parser(
        "download", help="fetch images that parquet tables name, into TFRecord shards"
    )
    download.add_argument("--data_dir", required=True, help="folder of .parquet tables")
    download.add_argument("--write_dir", required=True, help="folder for the shards of images")
    download.add_argument(
        "--image_size", type=int, default=256, help="smaller side after resizing (default 256)"
    )
    download.add_argument("--min_image_size", type=int, default=64, help="skip smaller images (default 64)")
    download.add_argument("--processes_count", type=int, default=16, help="processes (default 16)")
    download.add_argument(
        "--thread_count",
        type=int,
        default=256,
        help="requests at a time, in all, of these at most 4 to any one host (default 256)",
    )
    download.add_argument("--caption_col", default="caption", help="column of the captions (default caption)")
    download.add_argument("--url_col", default="url", help="column of the addresses (default url)")
    download.add_argument("--score_col", help="column of the aesthetic scores, if there is one")
    download.add_argument("--class_col", help="column of the classes, for networks that know classes")
    download.add_argument(
        "--samples_per_shard", type=int, default=10_000, help="images of a shard (default 10000)"
    )
    download.add_argument(
        "--downloader",
        choices=("auto", "img2dataset", "own"),
        default="auto",
        help="auto takes img2dataset where it is installed (default)",
    )

    shapes = commands.add_parser(
        "shapes", help="write shards of captioned shapes, to try the pipeline without a network"
    )
    shapes.add_argument("--write_dir", required=True, help="folder for the shards of images")
    shapes.add_argument("--count", type=int, default=2048, help="images (default 2048)")

    encode = commands.add_parser("encode", help="turn images and captions into latents and text states")
    _config_flags(encode)
    encode.add_argument("--data_dir", required=True, help="folder with the shards of images")
    encode.add_argument("--write_dir", required=True, help="folder for the shards of encodings")
    encode.add_argument(
        "--score_col",
        default="AESTHETIC_SCORE",
        help="what the score is called in shards of img2dataset: the --score_col of `download` (default "
        "AESTHETIC_SCORE)",
    )
    encode.add_argument(
        "--class_col",
        default="class",
        help="the same for the class, which networks that know classes need (default class)",
    )
    encode.add_argument("--batch_size", type=int, default=64, help="images at a time (default 64)")
    encode.add_argument("--auth_token", help="Hugging Face token, for encoders that need an account")
    _host_flags(encode)

    train = commands.add_parser("train", help="train; run it again to go on where it stopped")
    _config_flags(train)
    train.add_argument(
        "--global_dir",
        required=True,
        nargs="+",
        metavar="DIR",
        help="folder for checkpoints and logs, and after it, if you like, the folder with the encodings",
    )
    train.add_argument("--data_dir", help="folder with the encodings (not needed for the data set `shapes`)")
    train.add_argument("--steps", type=int, help="stop at this step instead of train.iterations")
    train.add_argument("--tensorboard", action="store_true", help="also write event files for TensorBoard")
    train.add_argument("--wandb_project", help="also log to this project at Weights & Biases")
    train.add_argument("--wandb_run", help="name of the run there")
    _host_flags(train)

    evaluate = commands.add_parser("evaluate", help="sample images for prompts")
    _config_flags(evaluate, required=False)
    evaluate.add_argument("--checkpoint_dir", required=True, help="folder of checkpoints")
    evaluate.add_argument("--checkpoint", type=int, help="step of the checkpoint (default: the newest)")
    evaluate.add_argument("--save_dir", required=True, help="folder for the images")
    evaluate.add_argument("--max_batch_size", type=int, default=64, help="images at a time (default 64)")
    evaluate.add_argument(
        "--guidance_scale",
        type=float,
        help="(default 3.5; 1 for a student, which has its teacher's guidance in it)",
    )
    evaluate.add_argument("--auth_token", help="Hugging Face token, for encoders that need an account")
    evaluate.add_argument("--prompt", help='prompts, separated by ";"')
    evaluate.add_argument("--classes", help="classes, separated by commas, for networks that know classes")
    evaluate.add_argument("--num_images", type=int, default=1, help="images for each prompt (default 1)")
    evaluate.add_argument(
        "--num_steps", type=int, help="sampling steps (default: the configuration's, or the student's)"
    )
    evaluate.add_argument("--sampler", choices=("ddim", "ancestral"), help="(default: the configuration's)")
    evaluate.add_argument("--aesth_score", type=float, default=6.5, help="the score to ask for (default 6.5)")
    evaluate.add_argument("--seed", type=int, default=0)
    evaluate.add_argument("--npz", action="store_true", help="also save all images and latents as arrays")
    evaluate.add_argument("--inpaint", metavar="IMAGE", help="an image to change; needs --mask")
    evaluate.add_argument("--mask", metavar="IMAGE", help="white where the image is to be made anew")
    _host_flags(evaluate)

    distill = commands.add_parser("distill", help="halve the steps that a network needs, again and again")
    _config_flags(distill, required=False)
    distill.add_argument("--checkpoint_dir", required=True, help="folder of the teacher's checkpoints")
    distill.add_argument("--checkpoint", type=int, help="step of the checkpoint (default: the newest)")
    distill.add_argument("--write_dir", required=True, help="folder for the students")
    distill.add_argument(
        "--data_dir", help="folder with the encodings (not needed for the data set `shapes`)"
    )
    distill.add_argument(
        "--guidance_scale", type=float, default=1.0, help="scale to distil into the student (default 1)"
    )
    _host_flags(distill)

    export = commands.add_parser("export", help="write a folder that diffusers loads")
    _config_flags(export, required=False)
    export.add_argument("--checkpoint_dir", required=True, help="folder of checkpoints")
    export.add_argument("--checkpoint", type=int, help="step of the checkpoint (default: the newest)")
    export.add_argument("--write_dir", required=True, help="the folder to write")

    benchmark = commands.add_parser("benchmark", help="training speed on this device, as a table")
    benchmark.add_argument("--configs", nargs="+", default=["small", "laion256"], help=CONFIG_HELP)
    benchmark.add_argument(
        "--batch_size", type=int, nargs="+", help="images on this host (one for all, or one for each)"
    )
    benchmark.add_argument("--steps", type=int, default=10, help="steps to measure (default 10)")
    benchmark.add_argument(
        "--compile_for",
        nargs="*",
        metavar="CHIP",
        help="compile ahead of time for these chips (v4, v5e, v5p, v6e) instead of running; needs libtpu",
    )
    benchmark.add_argument("--json", help="also write the rows to this file")
    for command in commands.choices.values():
        command.add_argument("--quiet", action="store_true", help="no progress")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command. 1: it failed, and one sentence says why. 130: interrupted."""
    options = make_parser().parse_args(arguments)
    # orbax tells each of its steps; what matters to people is said by the commands themselves.
    logging.getLogger("absl").setLevel(logging.ERROR)
    from tpulab_recipes.ddpm import commands

    try:
        commands.COMMANDS[options.command](options)
    except RecipeError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted; run the same command again to go on.\n")
        return 130
    return 0


def _config_flags(parser: argparse.ArgumentParser, required: bool = True) -> None:
    more = "" if required else " (default: the one that the checkpoint was trained with)"
    parser.add_argument("--config", required=required, help=CONFIG_HELP + more)
    parser.add_argument(
        "--set",
        dest="settings",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="change single keys, for example train.batch_size=64",
    )


def _host_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--coordinator",
        help="host:port of the first host, where the hosts of a slice do not find each other by themselves; "
        "`auto` asks the TPU's own environment",
    )
    parser.add_argument("--num_processes", type=int, help="hosts, with --coordinator host:port")
    parser.add_argument("--process_id", type=int, help="number of this host, with --coordinator host:port")
